//! Endpoints: addresses at which a volume is served besides the service's own.
//!
//! An endpoint is an address by which clients reach the volume, whichever machine has it. So it may be one that this machine
//! does not have yet or no longer has: that is a warning, not a refusal, and the volume is served there as soon as it can be.

use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Endpoints of one volume, at most.
pub const ENDPOINTS_MAX: usize = 16;
/// Distinct endpoint addresses of all volumes, at most.
pub(crate) const ADDRESSES_MAX: usize = 256;

/// Listeners of the data plane at the endpoints of volumes.
pub trait Listeners: Send + Sync {
    /// Listens at `addresses` and at no others besides the service's own.
    fn listen_at(&self, addresses: BTreeSet<IpAddr>);

    /// Wanted addresses without a listener, and the reason.
    fn failures(&self) -> BTreeMap<IpAddr, String>;
}

/// Refuses addresses that cannot be endpoints of one volume.
pub(crate) fn check_endpoints(endpoints: &[IpAddr]) -> Result<()> {
    if endpoints.len() > ENDPOINTS_MAX {
        let what = format!("a volume with {} endpoints", endpoints.len());
        return Err(Error::invalid(what, format!("at most {ENDPOINTS_MAX}")));
    }
    for (place, address) in endpoints.iter().enumerate() {
        if !is_of_one_host(*address) {
            let allowed = "the address of one machine, as in 10.1.0.5 or 2001:db8::5";
            return Err(Error::invalid(format!("the endpoint {address}"), allowed));
        }
        if endpoints[..place].contains(address) {
            return Err(Error::invalid(format!("the endpoint {address}, given twice"), "each address once"));
        }
    }
    Ok(())
}

/// Whether a machine can have this address, and clients can reach it by the address alone.
fn is_of_one_host(address: IpAddr) -> bool {
    let is_any = address.is_unspecified() || address.is_multicast();
    let is_none = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.octets()[0] == 0,
        // A link-local address needs an interface; a mapped address is written as IPv4.
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    !is_any && !is_none
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_of_one_machine() {
        let check = |texts: &[&str]| {
            check_endpoints(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
        };
        check(&["10.1.0.5", "127.0.0.2", "2001:db8::5", "::1", "fd00::1"]).unwrap();
        for bad in [
            "0.0.0.0",
            "0.1.2.3",
            "255.255.255.255",
            "224.0.0.1",
            "::",
            "ff02::1",
            "fe80::1",
            "::ffff:10.1.0.5",
        ] {
            let error = check(&[bad]).unwrap_err().to_string();
            assert!(error.contains("allowed: the address of one machine"), "{bad}: {error}");
        }
        assert!(
            check(&["10.1.0.5", "10.1.0.6", "10.1.0.5"])
                .unwrap_err()
                .to_string()
                .contains("10.1.0.5, given twice")
        );
        let many: Vec<IpAddr> = (1..=17).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        assert!(check_endpoints(&many).unwrap_err().to_string().contains("at most 16"));
        check_endpoints(&many[1..]).unwrap();
    }
}
