//! Addresses to listen at, as people write them.

use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const ALLOWED: &str = "allowed: ADDRESS:PORT, like 127.0.0.1:2049, 0.0.0.0:2049, [::1]:2049, localhost:2049, or :2049 \
                       for every IPv4 address";

/// Reads `ADDRESS:PORT`, `localhost:PORT`, or `:PORT` for every IPv4 address.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or(ALLOWED)?;
    let port: u16 = port.parse().map_err(|_| ALLOWED)?;
    match host {
        "" => Ok((Ipv4Addr::UNSPECIFIED, port).into()),
        "localhost" => Ok((Ipv4Addr::LOCALHOST, port).into()),
        "[::]" => Ok((Ipv6Addr::UNSPECIFIED, port).into()),
        _ => Err(ALLOWED.to_owned()),
    }
}

/// Reads an address without a port.
pub(crate) fn ip(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "allowed: an IP address, like 10.0.0.5 or fd00::5")
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => text,
        other => return Err(serde::de::Error::custom(format!("is {other}; {ALLOWED}"))),
    };
    parse(&text).map_err(|allowed| serde::de::Error::custom(format!("is \"{text}\"; {allowed}")))
}

pub(crate) fn deserialize_some<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_several_forms() {
        for (text, expected) in [
            ("127.0.0.1:2049", "127.0.0.1:2049"),
            (":2049", "0.0.0.0:2049"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), expected);
        }
        for text in ["2049", "0.0.0.0", "127.0.0.1", "host:2049", "localhost:", ":70000", "", "1.2.3:4"] {
            assert!(parse(text).unwrap_err().contains("ADDRESS:PORT"), "{text}");
        }
    }
}
