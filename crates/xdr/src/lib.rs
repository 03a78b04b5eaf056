//! RFC 4506 external data representation.
