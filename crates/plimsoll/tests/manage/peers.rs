//! Replications between two services, which know each other by their keys.

use crate::replication_clients::{read_over_all, serve_all};
use crate::replications::{create_volume, is_read_only, put, read, show};
use crate::rig::{Service, eventually};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const OPTIONS: [&str; 6] =
    ["--snapshots", "copy", "--replication-listen", "127.0.0.1:0", "--smb-listen", "127.0.0.1:0"];

fn site() -> Service {
    let service = Service::start_with(&OPTIONS);
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "64GiB"]);
    create_volume(&service, "v1");
    service
}

fn address(service: &Service) -> String {
    service.announcement()["replication"].as_str().unwrap().to_owned()
}

fn key(service: &Service) -> String {
    service.says(&["peer", "key"]).trim().to_owned()
}

/// Two services that know each other: `site-a` with the source, and `site-b`.
fn peers(at: impl FnOnce(&Service) -> String) -> (Service, Service) {
    let (a, b) = (site(), site());
    a.says(&["peer", "create", "site-b", "--key", &key(&b)]);
    b.says(&["peer", "create", "site-a", "--key", &key(&a), "--address", &at(&a)]);
    (a, b)
}

#[test]
fn a_volume_follows_that_of_another_service_and_takes_over() {
    let (a, b) = peers(address);
    put(&a, "v1", "a", "first");
    serve_all(&b, "v1");
    let create = ["replication", "create", "v1", "--source", "v1", "--peer", "site-a"];
    let said = b.refuses(&create);
    assert!(said.contains("authorize it there"), "{said}");
    assert_eq!(show(&b, "v1")["state"], json!("PENDING_PEERING"));
    let said = a.says(&["replication", "authorize", "v1", "--peer", "site-b"]);
    assert_eq!(said, "The peer site-b may replicate the volume v1.\n");
    b.says(&["replication", "sync", "v1"]);
    let shown = show(&b, "v1");
    assert_eq!((&shown["state"], &shown["peer"]), (&json!("MIRRORED"), &json!("site-a")));
    assert_eq!(read(&b, "v1", "a").as_deref(), Some("first"));
    assert_eq!(read_over_all(&b, "v1"), ["first"; 3]);
    assert!(is_read_only(&b, "v1"));
    let listed = a.says(&["replication", "authorizations"]);
    assert!(listed.contains("site-b") && listed.contains("replication."), "{listed}");

    put(&a, "v1", "a", "second");
    b.says(&["replication", "sync", "v1"]);
    assert_eq!(read(&b, "v1", "a").as_deref(), Some("second"));
    assert_eq!(read_over_all(&b, "v1"), ["second"; 3]);
    let said = a.refuses(&["volume", "delete", "v1", "--yes", "--force"]);
    assert!(said.contains("a volume of site-b"), "{said}");
    let said = b.refuses(&["peer", "delete", "site-a", "--yes"]);
    assert!(said.contains("used by the replication to v1"), "{said}");

    // The site of the source is gone.
    drop(a);
    let said = b.refuses(&["replication", "sync", "v1"]);
    assert!(said.contains("cannot reach site-a"), "{said}");
    assert_eq!((&show(&b, "v1")["state"], &show(&b, "v1")["healthy"]), (&json!("MIRRORED"), &json!(false)));
    b.says(&["replication", "break", "v1"]);
    put(&b, "v1", "a", "third!");
    assert_eq!(read(&b, "v1", "a").as_deref(), Some("third!"));
}

#[test]
fn services_with_other_keys_are_refused_in_words() {
    let (a, b) = peers(address);
    let create = ["replication", "create", "v1", "--source", "v1", "--peer", "site-a"];
    a.says(&["replication", "authorize", "v1", "--peer", "site-b"]);
    a.says(&["peer", "update", "site-b", "--key", &"5a".repeat(32)]);
    let said = b.refuses(&create);
    assert!(said.contains("has no peer with this service's key"), "{said}");
    a.says(&["peer", "update", "site-b", "--key", &key(&b)]);
    b.says(&["replication", "sync", "v1"]);
    b.says(&["peer", "update", "site-a", "--key", &"5a".repeat(32)]);
    let said = b.refuses(&["replication", "sync", "v1"]);
    assert!(said.contains("does not have the key that this one expects"), "{said}");
    b.says(&["peer", "update", "site-a", "--key", &key(&a)]);
    b.says(&["replication", "sync", "v1"]);
    let said = b.refuses(&["peer", "create", "me", "--key", &key(&b)]);
    assert!(said.contains("the key is that of this service"), "{said}");
    let said = b.refuses(&["peer", "create", "x", "--key", "5a"]);
    assert!(said.contains("64 hexadecimal digits"), "{said}");
}

/// Passes connections on, and after so many bytes from the source ends each, or falls silent.
fn proxy(to: String, most: Arc<AtomicUsize>, falls_silent: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&to) else { continue };
            let (mut up, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                _ = std::io::copy(&mut up, &mut into);
                _ = into.shutdown(Shutdown::Write);
            });
            let most = most.load(Ordering::SeqCst);
            thread::spawn(move || {
                let (mut server, mut client) = (server, client);
                let (mut left, mut bytes) = (most, [0; 997]);
                while left > 0 {
                    let want = left.min(bytes.len());
                    let Ok(len @ 1..) = server.read(&mut bytes[..want]) else { break };
                    if client.write_all(&bytes[..len]).is_err() {
                        break;
                    }
                    left -= len;
                }
                if falls_silent && left == 0 {
                    thread::sleep(Duration::from_secs(3600));
                }
                _ = server.shutdown(Shutdown::Both);
                _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    at
}

#[test]
fn cuts_and_kills_leave_one_point_and_the_transfer_goes_on() {
    let most = Arc::new(AtomicUsize::new(usize::MAX));
    let limit = Arc::clone(&most);
    let (mut a, mut b) = peers(|a| proxy(address(a), limit, false));
    a.says(&["replication", "authorize", "v1", "--peer", "site-b"]);
    put(&a, "v1", "a", "0");
    put(&a, "v1", "b", "0");
    b.says(&["replication", "create", "v1", "--source", "v1", "--peer", "site-a"]);
    let mut cuts = 0;
    for number in 1..=24_usize {
        let text = format!("{number}");
        put(&a, "v1", "a", &text);
        put(&a, "v1", "b", &text);
        most.store(300 + number * 211 % 1_300, Ordering::SeqCst);
        cuts += usize::from(!b.command(&["replication", "sync", "v1"]).output().unwrap().status.success());
        if number % 8 == 0 {
            b.kill();
            b.start_again();
        }
        let (first, second) = (read(&b, "v1", "a").unwrap(), read(&b, "v1", "b").unwrap());
        assert_eq!(first, second, "half a point");
        assert!(is_read_only(&b, "v1"));
    }
    assert!(cuts > 3, "{cuts}");
    // The source is killed, too, and comes back at another port.
    a.kill();
    a.start_again();
    b.says(&["peer", "update", "site-a", "--address", &address(&a)]);
    b.says(&["replication", "sync", "v1"]);
    b.says(&["replication", "sync", "v1"]);
    assert_eq!(read(&b, "v1", "a").as_deref(), Some("24"));
    eventually("two points stay", || {
        a.json(&["snapshot", "list", "v1"])["items"].as_array().unwrap().len() == 2
    });
}

#[test]
fn a_source_that_falls_silent_holds_up_neither_a_break_nor_a_stop() {
    let most = Arc::new(AtomicUsize::new(usize::MAX));
    let limit = Arc::clone(&most);
    let (a, mut b) = peers(|a| proxy(address(a), limit, true));
    a.says(&["replication", "authorize", "v1", "--peer", "site-b"]);
    put(&a, "v1", "a", "first");
    b.says(&["replication", "create", "v1", "--source", "v1", "--peer", "site-a"]);
    // More than passes before the silence, however it is compressed.
    let numbers = (1..600_u64).map(|number| format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    put(&a, "v1", "a", &numbers.collect::<String>());
    for is_stop in [false, true] {
        most.store(900, Ordering::SeqCst);
        b.says(&["replication", "sync", "v1", "--no-wait"]);
        assert_eq!(show(&b, "v1")["state"], json!("TRANSFERRING"));
        let begun = Instant::now();
        if is_stop {
            b.stop();
        } else {
            b.says(&["replication", "break", "v1", "--force"]);
            assert_eq!(read(&b, "v1", "a").as_deref(), Some("first"));
            most.store(usize::MAX, Ordering::SeqCst);
            b.says(&["replication", "resume", "v1"]);
            b.says(&["replication", "sync", "v1"]);
        }
        // A connection ends after a minute of silence.
        assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    }
}

#[test]
fn the_first_site_follows_the_second_one_and_takes_over_again() {
    let (a, b) = peers(address);
    a.says(&["peer", "update", "site-b", "--address", &address(&b)]);
    a.says(&["replication", "authorize", "v1", "--peer", "site-b"]);
    put(&a, "v1", "a", "1");
    let follow = ["replication", "create", "v1", "--source", "v1", "--peer"];
    b.says(&[&follow[..], &["site-a"]].concat());
    b.says(&["replication", "break", "v1"]);
    put(&b, "v1", "b", "2");
    put(&a, "v1", "lost", "never transferred");
    b.says(&["replication", "authorize", "v1", "--peer", "site-a"]);
    let back = [&follow[..], &["site-b"]].concat();
    let said = a.refuses(&back);
    assert!(said.contains("would go back to replication.") && said.contains("--force"), "{said}");
    a.says(&[&back[..], &["--force"]].concat());
    assert_eq!((read(&a, "v1", "b").as_deref(), read(&a, "v1", "lost")), (Some("2"), None));
    assert!(is_read_only(&a, "v1"));
    assert!(b.says(&["replication", "list"]).contains("No replications."));
    a.says(&["replication", "break", "v1"]);
    put(&a, "v1", "c", "3");
    a.says(&["replication", "authorize", "v1", "--peer", "site-b"]);
    b.says(&[&follow[..], &["site-a"]].concat());
    assert_eq!(read(&b, "v1", "c").as_deref(), Some("3"));
    assert!(is_read_only(&b, "v1") && !is_read_only(&a, "v1"));
}

#[test]
fn without_the_option_nothing_listens() {
    let service = Service::start();
    assert_eq!(service.announcement().get("replication"), None);
    let said = service.says(&["peer", "list"]);
    assert!(said.contains("No peers."), "{said}");
    let said = service.says(&["replication", "authorizations"]);
    assert!(said.contains("No peer may replicate a volume."), "{said}");
}
