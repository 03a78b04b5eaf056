//! Long messages that are kept until they are whole, and do not become whole.

use super::{Client, Echo, FRAMING, Running, TAIL_BYTES_MAX, wait_until};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};
use transport::Settings;
use transport::limits::{CLIENT_UPLOAD_BYTES_MAX, SPILLED_BYTES_MAX};

/// What comes of a message at first.
const HEAD_BYTES: usize = 10 << 10;

/// The longest message that is kept, with its framing.
fn longest() -> Vec<u8> {
    let body = [b"k\x01", &[7; TAIL_BYTES_MAX - 2][..]].concat();
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
}

/// A client at another address of this machine.
fn connect_from(running: &Running, host: u8) -> Client {
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stream, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, host), 0)).unwrap();
    connect(&stream, &running.address).unwrap();
    Client::new(TcpStream::from(stream))
}

#[test]
fn a_message_that_is_kept_has_its_time_however_often_some_of_it_comes() {
    const STALLED_S: u32 = 2;
    let settings = Settings { stalled_s: STALLED_S, ..Settings::for_descriptors(2, 1000) };
    let running = Running::with(Echo::default(), settings);
    let (mut slow, mut trickling) = (running.connect(), running.connect());
    let message = longest();
    let start = Instant::now();
    trickling.stream.write_all(&message[..HEAD_BYTES]).unwrap();
    let view = running.server.view();
    wait_until("the memory of a message", || view.stats().spilled_bytes == TAIL_BYTES_MAX);
    // One that needs half of the time.
    for piece in message.chunks(message.len().div_ceil(10)) {
        slow.stream.write_all(piece).unwrap();
        trickling.stream.write_all(b"more").unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(slow.receive() == message[FRAMING..]);
    while trickling.stream.write_all(b"more").is_ok() {
        assert!(start.elapsed() < Duration::from_secs(10), "it goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(start.elapsed() >= Duration::from_secs(STALLED_S.into()));
    wait_until("the end of the count", || view.stats().spilled_bytes == 0);
    assert_eq!(slow.ask(b"e\x01"), b"e\x01");
}

#[test]
fn long_messages_wait_for_memory_and_one_host_leaves_some_to_others() {
    let running = Running::new(Echo::default());
    let view = running.server.view();
    let message = longest();
    let (head, rest) = message.split_at(HEAD_BYTES);
    let of_host = CLIENT_UPLOAD_BYTES_MAX / TAIL_BYTES_MAX;
    let mut clients: Vec<Client> = Vec::new();
    for host in 1..=SPILLED_BYTES_MAX / CLIENT_UPLOAD_BYTES_MAX {
        let host = u8::try_from(host).unwrap();
        clients.extend((0..of_host + 3).map(|_| connect_from(&running, host)));
        let first = clients.len() - of_host - 3;
        for client in &mut clients[first..] {
            client.stream.write_all(head).unwrap();
        }
        let full = usize::from(host) * CLIENT_UPLOAD_BYTES_MAX;
        wait_until("all that a host may have begun", || view.stats().spilled_bytes >= full);
        // Short messages are none of these, and what waits has taken no more than what has come of it.
        assert_eq!(connect_from(&running, host).ask(b"e\x01"), b"e\x01");
        let waiting = 3 * usize::from(host) * head.len();
        assert!((full..=full + waiting).contains(&view.stats().spilled_bytes), "{:?}", view.stats());
    }
    // Now another host has to wait, too.
    let mut last = connect_from(&running, 100);
    last.stream.write_all(head).unwrap();
    clients.push(last);
    for client in &mut clients {
        let mut stream = client.stream.try_clone().unwrap();
        let rest = rest.to_vec();
        std::thread::spawn(move || stream.write_all(&rest));
    }
    for client in &mut clients {
        assert!(client.receive() == message[FRAMING..]);
    }
    wait_until("the end of the count", || view.stats().spilled_bytes == 0);
}
