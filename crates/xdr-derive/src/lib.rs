//! `#[derive(Xdr)]`.
