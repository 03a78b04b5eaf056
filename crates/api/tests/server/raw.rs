//! Requests byte by byte: what no well-behaved client sends.

use crate::rig::Rig;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Sends these bytes and returns the reply up to the end of the connection.
pub fn ask(rig: &Rig, request: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(rig.server.local_addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may end the connection before it has everything.
    _ = stream.write_all(request.as_ref());
    let mut reply = Vec::new();
    _ = stream.read_to_end(&mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

/// The body of what comes back for a question with a token.
pub fn body_of(rig: &Rig, path: &str) -> String {
    let reply = request(rig, &format!("GET {path}"), "", "");
    assert_eq!(status(&reply), 200, "{reply}");
    reply.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A request with a token, and a connection that ends after it.
fn request(rig: &Rig, line: &str, headers: &str, body: &str) -> String {
    let (token, length) = (&rig.token, body.len());
    let length = if headers.contains("content-length") {
        String::new()
    } else {
        format!("content-length: {length}\r\n")
    };
    ask(
        rig,
        format!(
            "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n{headers}{length}\r\n{body}"
        ),
    )
}

fn status(reply: &str) -> u16 {
    reply
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("no status: {reply:?}"))
}

const JSON: &str = "content-type: application/json\r\n";

/// A status, a request line, headers, a body.
type Case = (u16, &'static str, &'static str, String);

fn bad_paths_and_queries() -> Vec<Case> {
    vec![
        (404, "GET /nowhere", "", String::new()),
        (404, "GET /v1/pools/a%2Fb", "", String::new()),
        (404, "GET /v1/pools/%FF", "", String::new()),
        (404, "GET /v1/operations/-1", "", String::new()),
        (404, "GET /v1/operations/99999999999999999999", "", String::new()),
        (404, "GET /v1/operations/18446744073709551615", "", String::new()),
        (404, "GET /v1/levels/anf/gold", "", String::new()),
        (405, "DELETE /v1/pools", "", String::new()),
        (405, "TRACE /v1/pools", "", String::new()),
        (400, "GET /v1/pools?limit=0", "", String::new()),
        (400, "GET /v1/pools?limit=1001", "", String::new()),
        (400, "GET /v1/pools?limit=x", "", String::new()),
        (400, "GET /v1/pools?limits=5", "", String::new()),
        (400, "GET /v1/pools?limit=5&limit=5", "", String::new()),
        (422, "GET /v1/operations?page_token=x", "", String::new()),
        (422, "GET /v1/pools?page_token=%00zz", "", String::new()),
        (422, "GET /v1/volumes?page_token=%00zz", "", String::new()),
        (422, "GET /v1/users?page_token=%00zz", "", String::new()),
        (422, "GET /v1/groups?page_token=%00zz", "", String::new()),
        (422, "GET /v1/levels/anf/premium?qos=auto", "", String::new()),
        (422, "GET /v1/levels/anf/premium?size_bytes=5", "", String::new()),
    ]
}

fn bad_bodies() -> Vec<Case> {
    let long = "x".repeat(300);
    vec![
        (415, "POST /v1/pools", "", "{}".to_owned()),
        (415, "POST /v1/pools", "content-type: text/plain\r\n", "{}".to_owned()),
        (400, "POST /v1/pools", JSON, String::new()),
        (400, "POST /v1/pools", JSON, "{".to_owned()),
        (400, "POST /v1/pools", JSON, "[]".to_owned()),
        (400, "POST /v1/pools", JSON, "[".repeat(100_000)),
        (400, "POST /v1/pools", JSON, "\u{0}".to_owned()),
        (400, "POST /v1/pools", JSON, r#"{"name": "p"}"#.to_owned()),
        (400, "POST /v1/pools", JSON, r#"{"name": "p", "level": "gold", "size_bytes": 5}"#.to_owned()),
        (
            400,
            "POST /v1/pools",
            JSON,
            r#"{"name": "p", "level": "plimsoll/unlimited", "size_bytes": -5}"#.to_owned(),
        ),
        (
            400,
            "POST /v1/pools",
            JSON,
            r#"{"name": "p", "level": "plimsoll/unlimited", "size_bytes": 5.5}"#.to_owned(),
        ),
        (
            400,
            "POST /v1/pools",
            JSON,
            r#"{"name": "p", "level": "plimsoll/unlimited", "size_bytes": 9223372036854775808}"#.to_owned(),
        ),
        (
            400,
            "POST /v1/pools",
            JSON,
            r#"{"name": "p", "name": "p", "level": "plimsoll/unlimited", "size_bytes": 5}"#.to_owned(),
        ),
        (
            400,
            "POST /v1/pools",
            JSON,
            r#"{"name": "p", "level": "plimsoll/unlimited", "size_bytes": 5, "x": 1}"#.to_owned(),
        ),
        (
            422,
            "POST /v1/pools",
            JSON,
            r#"{"name": "a/b", "level": "plimsoll/unlimited", "size_bytes": 5}"#.to_owned(),
        ),
        (
            422,
            "POST /v1/pools",
            JSON,
            format!(r#"{{"name": "{long}", "level": "plimsoll/unlimited", "size_bytes": 5}}"#),
        ),
        (422, "POST /v1/pools", JSON, r#"{"name": "p", "level": "anf/premium", "size_bytes": 5}"#.to_owned()),
        (404, "PATCH /v1/pools/none", JSON, "{}".to_owned()),
        // Where every property may be left out, too.
        (400, "PATCH /v1/pools/none", JSON, "[]".to_owned()),
        (400, "PATCH /v1/users/none", JSON, "[]".to_owned()),
        (400, "PATCH /v1/volumes/none", JSON, r#"{"settings": []}"#.to_owned()),
        (404, "POST /v1/volumes", JSON, r#"{"name": "v", "pool": "none", "size_bytes": 5}"#.to_owned()),
        (
            413,
            "POST /v1/pools",
            "content-type: application/json\r\ncontent-length: 1048577\r\n",
            String::new(),
        ),
    ]
}

#[test]
fn every_refusal_is_a_problem_with_its_status() {
    let rig = Rig::start();
    let cases = bad_paths_and_queries().into_iter().chain(bad_bodies());
    for (expected, line, headers, body) in cases {
        let reply = request(&rig, line, headers, &body);
        let shown = &body[..body.len().min(100)];
        assert_eq!(status(&reply), expected, "{line} {shown}: {reply}");
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-type: application/problem+json"), "{line} {shown}: {head}");
        let problem: api_client::model::Problem = serde_json::from_str(body).unwrap();
        assert_eq!(problem.status, expected, "{line}");
        assert!(
            !problem.detail.is_empty() && problem.kind.starts_with("urn:plimsoll:problem:"),
            "{problem:?}"
        );
    }
}

#[test]
fn methods_that_are_not_there_are_answered_with_those_that_are() {
    let rig = Rig::start();
    let reply = request(&rig, "PUT /v1/pools/x", "", "");
    assert!(reply.contains("allow: GET, PATCH, DELETE, HEAD"), "{reply}");
    let reply = request(&rig, "HEAD /v1/version", "", "");
    assert!(reply.starts_with("HTTP/1.1 200") && reply.ends_with("\r\n\r\n"), "{reply}");
}

#[test]
fn a_body_that_is_too_long_is_not_taken() {
    let rig = Rig::start();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let chunks = chunk.repeat(20);
    let head = format!(
        "POST /v1/pools HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n{JSON}transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        rig.token
    );
    let reply = ask(&rig, head + &chunks + "0\r\n\r\n");
    // If the connection ends while there is more to send, the reply may be lost on the way.
    assert!(reply.is_empty() || status(&reply) == 413, "{reply}");
    assert!(rig.service.pools(None, 10).unwrap().items.is_empty());
}

#[test]
fn garbage_hurts_nobody() {
    let rig = Rig::start();
    let mut noise = vec![0_u8; 4096];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000));
    for request in [
        &noise[..],
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
        b"\r\n\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(rig.server.local_addr()).unwrap();
        _ = stream.write_all(request);
        _ = stream.shutdown(std::net::Shutdown::Write);
        let mut reply = Vec::new();
        _ = stream.read_to_end(&mut reply);
        let reply = String::from_utf8_lossy(&reply);
        assert!(!reply.starts_with("HTTP/1.1 5") && !reply.starts_with("HTTP/1.1 2"), "{reply}");
    }
    assert_eq!(rig.client().version().unwrap().api, "v1");
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let rig = Rig::start();
    let address = rig.server.local_addr();
    for count in [api::limits::CONNECTIONS_MAX - 1, 257] {
        let silent: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(address).unwrap()).collect();
        let begun = Instant::now();
        assert!(rig.client().is_ready());
        assert!(begun.elapsed() < Duration::from_secs(5), "{count}: {:?}", begun.elapsed());
        drop(silent);
    }
}

/// A connection from another address of this machine.
fn from(source: [u8; 4], to: std::net::SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &std::net::SocketAddr::from((source, 0))).unwrap();
    connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

#[test]
fn whoever_floods_ends_connections_of_its_own() {
    let rig = Rig::start();
    let address = rig.server.local_addr();
    let health = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut reply = [0; 12];
    let mut kept = from([127, 0, 0, 2], address);
    kept.write_all(health).unwrap();
    kept.read_exact(&mut reply).unwrap();
    let silent: Vec<TcpStream> = (0..300).map(|_| from([127, 0, 0, 3], address)).collect();
    let others: Vec<TcpStream> = (0..90).map(|number| from([127, 0, 1, number], address)).collect();
    assert!(rig.client().is_ready());
    // The one that is older than all of them goes on, and so do the newest of the many.
    for mut stream in [&kept, &silent[299], &others[0]] {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(health).unwrap();
        stream.read_exact(&mut reply).unwrap();
    }
    assert_eq!(&reply, b"HTTP/1.1 200");
    let mut first = &silent[0];
    first.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(matches!(first.read(&mut reply), Ok(0)), "the oldest has ended");
}

/// Sends a beginning and nothing more; how long it takes until the connection ends, and what has come by then.
fn stall(rig: &Rig, beginning: &str) -> (Duration, String) {
    let mut stream = TcpStream::connect(rig.server.local_addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(beginning.as_bytes()).unwrap();
    let (start, mut reply) = (Instant::now(), Vec::new());
    _ = stream.read_to_end(&mut reply);
    (start.elapsed(), String::from_utf8_lossy(&reply).into_owned())
}

#[test]
fn slow_requests_and_idle_connections_come_to_an_end() {
    let rig = Rig::start();
    let authorization = format!("authorization: Bearer {}\r\n{JSON}", rig.token);
    let body = format!("POST /v1/pools HTTP/1.1\r\nhost: x\r\n{authorization}content-length: 100\r\n\r\n{{");
    let head = Duration::from_secs(api::limits::HEAD_S_MAX);
    let beginnings = [
        (head, String::new(), ""),
        (head, "GET /healthz HTTP/1.1\r\nhost:".to_owned(), ""),
        (Duration::from_secs(api::limits::BODY_S_MAX), body, "HTTP/1.1 408"),
        (head, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), "HTTP/1.1 200"),
    ];
    std::thread::scope(|scope| {
        for (most, beginning, expected) in &beginnings {
            let rig = &rig;
            scope.spawn(move || {
                let (time, reply) = stall(rig, beginning);
                assert!(time < *most + Duration::from_secs(8), "{beginning:?}: {time:?}");
                assert!(reply.starts_with(expected), "{beginning:?}: {reply}");
            });
        }
    });
}

#[test]
fn the_end_waits_for_what_is_under_way() {
    let rig = Rig::start();
    let address = rig.server.local_addr();
    let mut idle = TcpStream::connect(address).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut reply = [0; 1024];
    assert!(idle.read(&mut reply).unwrap() > 0);
    let start = Instant::now();
    rig.server.stop(Duration::from_secs(20));
    assert!(start.elapsed() < Duration::from_secs(10), "an idle connection is nothing to wait for");
    assert_eq!(idle.read(&mut reply).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn too_many_requests_are_refused_and_the_state_is_still_told() {
    let rig = Rig::start();
    // A request for the clients waits until this lock is released.
    let held = rig.plane.clients.lock();
    let line = format!(
        "GET /v1/clients HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        rig.token
    );
    let asking: Vec<TcpStream> = (0..api::limits::REQUESTS_MAX + 8)
        .map(|_| {
            let mut stream = TcpStream::connect(rig.server.local_addr()).unwrap();
            stream.write_all(line.as_bytes()).unwrap();
            stream
        })
        .collect();
    // None is refused before as many have come as may be under way: by then the server has read them all.
    let refused = || asking.iter().filter(|stream| stream.peek(&mut [0]).is_ok()).count();
    asking.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let begun = Instant::now();
    while refused() < 8 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} are refused", refused());
        std::thread::sleep(Duration::from_millis(10));
    }
    asking.iter().for_each(|stream| stream.set_nonblocking(false).unwrap());
    assert!(
        ask(&rig, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 200")
    );
    drop(held);
    let statuses: Vec<u16> = asking
        .into_iter()
        .map(|mut stream| {
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap();
            status(&reply)
        })
        .collect();
    let count = |wanted| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(200), count(429)), (api::limits::REQUESTS_MAX, 8), "{statuses:?}");
}
