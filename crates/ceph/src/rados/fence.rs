//! The exclusion of other clients.

use super::Rados;
use super::error::{failed, out_of_bounds};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::net::SocketAddr;

impl Rados {
    /// The addresses that the cluster knows this connection by, for [`Rados::blocklist`]. Another connection, also of the same
    /// process, has another one.
    pub fn own_addresses(&self) -> io::Result<String> {
        let error = |errno| failed("cannot tell the own address", &self.options.user, errno);
        let addresses = self.cluster.addresses().map_err(error)?;
        let addresses = String::from_utf8(addresses).map_err(|_| error(Errno::ILSEQ))?;
        // An address that cannot be excluded later is found now.
        addresses_of(&addresses)?;
        Ok(addresses)
    }

    /// Excludes the connection with these addresses from all OSDs for some time; returns when the monitors have agreed on it,
    /// which they do once a second (`paxos_propose_interval`).
    ///
    /// An OSD may not know yet: call [`Rados::wait_for_latest_map`], then load the objects that the other client must not
    /// change any more. The Ceph user needs `allow command "osd blocklist" with blocklistop=add` at the monitors.
    pub fn blocklist(&self, addresses: &str, seconds: u32) -> io::Result<()> {
        for address in addresses_of(addresses)? {
            // The number must have a fraction: the monitors want a float.
            let command = format!(
                r#"{{"prefix": "osd blocklist", "blocklistop": "add", "addr": "{address}", "expire": {seconds}.0}}"#
            );
            let command = CString::new(command)?;
            self.cluster.mon_command(&command).map_err(|(errno, text)| {
                let what = format!("cannot exclude the client {address} from the Ceph cluster");
                let what = if text.is_empty() { what } else { format!("{what} ({text})") };
                failed(&what, &self.options.user, errno)
            })?;
        }
        Ok(())
    }

    /// Waits until this client has the newest map of the OSDs, with the list of excluded clients.
    ///
    /// Its later operations go with that map, and an OSD takes the map before it runs them. So after the first one of them
    /// that succeeds on an object, no excluded client changes the object. Other objects have other OSDs, which may not know.
    pub fn wait_for_latest_map(&self) -> io::Result<()> {
        let failed = |errno| failed("cannot wait for the map of the OSDs", &self.options.user, errno);
        self.cluster.wait_for_latest_map().map_err(failed)
    }
}

/// The addresses of a list as `[v2:127.0.0.1:0/7,v1:127.0.0.1:0/7]` or of a single one, without their protocols, each once.
fn addresses_of(list: &str) -> io::Result<Vec<String>> {
    let invalid = || out_of_bounds(format!("{list:?} is not the address of a Ceph client"));
    let is_list = list.contains(',') || list.starts_with("[v") || list.starts_with("[any:");
    let inner =
        if is_list { list.strip_prefix('[').and_then(|list| list.strip_suffix(']')) } else { Some(list) };
    let mut addresses = Vec::new();
    for address in inner.ok_or_else(invalid)?.split(',') {
        let protocol = ["v1:", "v2:", "any:"].into_iter().find(|protocol| address.starts_with(protocol));
        let address = address.strip_prefix(protocol.unwrap_or_default()).unwrap_or(address);
        let (socket, nonce) = address.split_once('/').ok_or_else(invalid)?;
        let socket: SocketAddr = socket.parse().map_err(|_| invalid())?;
        // Without a number the address is that of the whole machine.
        let nonce: u32 = nonce.parse().ok().filter(|&nonce| nonce > 0).ok_or_else(invalid)?;
        let address = format!("{socket}/{nonce}");
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_list_names_each_client_once() {
        let single = Ok(vec!["127.0.0.1:0/2987545616".to_owned()]);
        let found = |list| addresses_of(list).map_err(|error| error.to_string());
        assert_eq!(found("127.0.0.1:0/2987545616"), single);
        assert_eq!(found("[v2:127.0.0.1:0/2987545616,v1:127.0.0.1:0/2987545616]"), single);
        assert_eq!(found("[v2:127.0.0.1:0/2987545616]"), single);
        assert_eq!(found("any:127.0.0.1:0/2987545616"), single);
        let six = "[fd00::1]:0/9";
        assert_eq!(found(six), Ok(vec![six.to_owned()]));
        let both = Ok(vec![six.to_owned(), "10.0.0.1:0/8".to_owned()]);
        assert_eq!(found("[v2:[fd00::1]:0/9,v2:10.0.0.1:0/8]"), both);
    }

    #[test]
    fn address_of_a_machine_or_none_is_refused() {
        let invalid = [
            "",
            "127.0.0.1:0/0",
            "127.0.0.1",
            "127.0.0.1:0",
            "127.0.0.0/24",
            "-",
            "1.1.1.1:0/1\", \"x\": \"",
            "[,]",
        ];
        for list in invalid {
            assert!(addresses_of(list).is_err(), "{list}");
        }
    }
}
