//! A foreign protocol over real sockets: the promises of the transport hold for any protocol.
//!
//! A message is a length of four bytes and a body. The first byte of the body selects the action and the second is a
//! number. The reply repeats both.

mod cipher;
mod crowds;
mod deadline;
mod ends;
mod long_replies;
mod patience;
mod unfinished;

use cipher::Cipher;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use transport::limits::UNREAD_REPLY_BYTES_MAX;
use transport::{
    Body, Connection, Context, DeferredReply, Dispatch, Endpoints, Frame, Malformed, Outbox, PartData, Plan,
    Progress, Protocol, Role, Server, Settings, Transform,
};
use vfs::qos::{Admission, Demand, Gate, Limits, Pacer};
use vfs::sync::Mutex;
use vfs::{Blocking, FsError, Volume};

const FRAMING: usize = 4;
/// A bit of the length: the body is a part of a message, and not its last one.
const PART: u32 = 1 << 31;
const MESSAGE_BYTES_MAX: usize = 4 << 20;
const TAIL_BYTES_MAX: usize = 2 << 20;
/// The length of the reply to `g`.
const LONG_REPLY_BYTES: usize = 3 << 19;
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Echo {
    plans: AtomicUsize,
    runs: AtomicUsize,
    resumes: AtomicUsize,
    synced: AtomicUsize,
    failed: AtomicUsize,
    deferred: Mutex<VecDeque<(DeferredReply<Self>, Vec<u8>)>>,
    listeners: Mutex<Vec<Weak<Connection<Self>>>>,
    received_replies: Mutex<Vec<Vec<u8>>>,
    gate: Option<Arc<Gate>>,
    /// Whether calls that wait for this flag may panic.
    may_panic: AtomicBool,
    /// Whether calls that hold up their event loop may end.
    is_released: AtomicBool,
    /// The bytes after which ciphers that were offloaded to the socket end.
    kernel_bytes_max: Option<u64>,
}

/// The action of a call, and its number.
type Call = (u8, u8);

struct EchoContinuation(Vec<u8>);

struct Sum {
    call: Call,
    bytes: usize,
    sum: u64,
    parts: usize,
    refusal: Option<FsError>,
}

/// The target of calls: no volume counts them.
struct NoTarget;

impl AsRef<Volume> for NoTarget {
    fn as_ref(&self) -> &Volume {
        unreachable!("no call has a target")
    }
}

fn push(out: &mut Outbox, body: &[u8]) {
    out.bytes().extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    out.bytes().extend(body);
}

fn flood(connection: &Connection<Echo>) {
    let mut out = Outbox::default();
    push(&mut out, &[b'!'; 4 * UNREAD_REPLY_BYTES_MAX]);
    connection.send(&mut out);
}

impl Protocol for Echo {
    type Listener = &'static str;
    type Session = &'static str;
    type Memory = Role;
    type Target = Box<NoTarget>;
    type Call = Call;
    type Continuation = EchoContinuation;
    type Upload = Sum;

    const MESSAGE_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
    const HEAD_BYTES: usize = FRAMING + 2;
    const TAIL_BYTES_MAX: usize = TAIL_BYTES_MAX;

    fn session(&self, listener: &&'static str, _: Endpoints) -> &'static str {
        listener
    }

    fn memory(&self, role: Role, _: usize) -> Role {
        role
    }

    fn begin_turn(&self, _: &mut Role) {}

    fn frame(&self, have: &[u8], _: bool) -> Result<Frame, Malformed> {
        let Some(length) = have.first_chunk() else {
            return Ok(Frame::Incomplete { framing: FRAMING, len: 0 });
        };
        let word = u32::from_be_bytes(*length);
        let len = (word & !PART) as usize;
        if word & PART != 0 {
            return Ok(Frame::Part { framing: FRAMING, len, is_last: false });
        }
        if !(2..=MESSAGE_BYTES_MAX).contains(&len) {
            return Err(Malformed("length"));
        }
        let end = FRAMING + len;
        let is_whole = have.len() >= end;
        Ok(if is_whole { Frame::Message(FRAMING..end) } else { Frame::Incomplete { framing: FRAMING, len } })
    }

    fn plan(
        &self,
        connection: &Connection<Self>,
        _: &mut Role,
        message: &[u8],
        _: &mut Outbox,
    ) -> Result<Option<Plan<Call>>, Malformed> {
        self.plans.fetch_add(1, Ordering::SeqCst);
        let call = (message[0], message[1]);
        let dispatch = match call.0 {
            b'o' | b'g' => Dispatch::Offload,
            b'b' | b's' | b'k' | b'x' => Dispatch::Batched,
            _ => Dispatch::Inline,
        };
        let demand = Demand::OTHER;
        let limited = self.gate.as_ref().filter(|_| matches!(call.0, b'q' | b's' | b'u'));
        let admission = limited.map(|gate| Admission::new(gate, connection.endpoints.peer.ip(), demand));
        Ok(Some(Plan { call, dispatch, admission }))
    }

    fn may_stream(&self, _: &Connection<Self>, call: &Call) -> bool {
        matches!(call.0, b's' | b'k')
    }

    fn reply_bytes_max(&self, call: &Call, _: &[u8]) -> u32 {
        if call.0 == b'g' { u32::try_from(LONG_REPLY_BYTES).unwrap() } else { 0 }
    }

    fn reply_bytes_max_at(&self, at: &EchoContinuation) -> u32 {
        if at.0[0] == b'G' { u32::try_from(LONG_REPLY_BYTES).unwrap() } else { 0 }
    }

    fn bytes_at(&self, at: &EchoContinuation) -> usize {
        if at.0[0] == b'G' { 16 << 20 } else { at.0.len() }
    }

    fn run(&self, cx: &mut Context<'_, Self>, call: Call, message: &[u8]) -> Progress<EchoContinuation> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        assert_eq!(*cx.session(), "echo");
        let where_run = *cx.memory;
        match call.0 {
            b'e' | b'q' | b'k' => push(cx.out, message),
            // On a storage thread by itself, and in order with others.
            b'o' => {
                assert_eq!((where_run, cx.blocking), (Role::Job, Blocking::Allowed));
                push(cx.out, message);
            }
            // Sends more than a client may leave unread, before its reply.
            b'u' => {
                flood(cx.connection);
                push(cx.out, message);
            }
            b'f' => {
                wait_until("the release", || self.is_released.load(Ordering::SeqCst));
                push(cx.out, message);
            }
            b'z' => {
                std::thread::sleep(Duration::from_secs(2));
                push(cx.out, message);
            }
            b'g' => push(cx.out, &[call.1; LONG_REPLY_BYTES]),
            b'b' => {
                assert_eq!((where_run, cx.blocking), (Role::Lease, Blocking::Allowed));
                push(cx.out, message);
                return Progress::AfterSync(EchoContinuation(message.to_vec()));
            }
            b's' => push(cx.out, &summary(call, message.len() - 2, sum(&message[2..]), 0, None)),
            // Needs storage. The reply is half written and must not be seen.
            b'w' => {
                cx.out.bytes().extend(b"half");
                return Progress::WaitForStorage(EchoContinuation(message.to_vec()));
            }
            // The same with a long reply, and a large continuation.
            b'G' => return Progress::WaitForStorage(EchoContinuation(message.to_vec())),
            b'l' | b'a' => return self.defer_or_answer(cx, call, message),
            // Expects messages from the server; `r` is a reply to one.
            b'h' => {
                self.listeners.lock().push(Arc::downgrade(cx.connection));
                push(cx.out, message);
            }
            b'r' => self.received_replies.lock().push(message.to_vec()),
            b't' => {
                push(cx.out, message);
                return Progress::Switch(Box::new(Cipher {
                    kernel_bytes_max: self.kernel_bytes_max,
                    ..Cipher::default()
                }));
            }
            b'v' | b'y' | b'j' => return change_standing(cx, call, message),
            b'm' => push(cx.out, &[b'm', u8::from(cx.moves_pages())]),
            b'p' => panic!("a call panics, as it should"),
            // Panics on a storage thread, when it may.
            b'x' => {
                assert_eq!(where_run, Role::Lease);
                wait_until("leave to panic", || self.may_panic.load(Ordering::SeqCst));
                panic!("a call panics, as it should");
            }
            _ => push(cx.out, b"?"),
        }
        Progress::Done
    }

    fn resume(&self, cx: &mut Context<'_, Self>, at: EchoContinuation) -> Progress<EchoContinuation> {
        self.resumes.fetch_add(1, Ordering::SeqCst);
        assert_eq!(cx.blocking, Blocking::Allowed);
        let reply = if at.0[0] == b'G' { vec![b'G'; LONG_REPLY_BYTES] } else { at.0 };
        push(cx.out, &reply);
        Progress::Done
    }

    fn synced(&self, at: EchoContinuation, reply: Option<&[u8]>) -> Option<EchoContinuation> {
        let mut expected = Outbox::default();
        let start = expected.start();
        push(&mut expected, &at.0);
        assert_eq!(reply, expected.since(start));
        self.synced.fetch_add(1, Ordering::SeqCst);
        None
    }

    fn fail(&self, at: EchoContinuation, error: FsError, out: &mut Outbox) {
        self.failed.fetch_add(1, Ordering::SeqCst);
        push(out, format!("{}{error}", char::from(at.0[0])).as_bytes());
    }

    fn refuse(&self, call: &Call, _message: &[u8], error: FsError, out: &mut Outbox) {
        push(out, format!("{}{error}", char::from(call.0)).as_bytes());
    }

    fn begin_upload(
        &self,
        call: Call,
        _: &[u8],
        message_bytes: usize,
        refusal: Option<FsError>,
    ) -> Result<(Sum, Body), Malformed> {
        let body = match call.0 {
            // The whole message is the tail.
            b'k' => Body { start: 0, len: 0 },
            // The last three bytes are the tail.
            _ => Body { start: 2, len: message_bytes - 5 },
        };
        Ok((Sum { call, bytes: 0, sum: 0, parts: 0, refusal }, body))
    }

    fn upload(&self, _: &mut Context<'_, Self>, upload: &mut Sum, at: usize, data: PartData<'_>) -> usize {
        assert_eq!(at, upload.bytes);
        let len = data.len();
        let mut bytes = Vec::new();
        match data {
            PartData::Bytes(part) => bytes.extend(part),
            PartData::Pipe(pipe) => {
                bytes.resize(len, 0);
                let mut at = 0;
                while at < len {
                    at += rustix::io::read(pipe.reader(), &mut bytes[at..]).unwrap();
                }
                pipe.mark_emptied();
            }
        }
        upload.sum = upload.sum.wrapping_add(sum(&bytes));
        upload.bytes += len;
        upload.parts += 1;
        len
    }

    fn finish_upload(
        &self,
        cx: &mut Context<'_, Self>,
        upload: Sum,
        tail: &[u8],
    ) -> Progress<EchoContinuation> {
        let Sum { call, bytes, sum: body, parts, refusal } = upload;
        if call.0 == b'k' {
            assert_eq!(*cx.memory, Role::Lease);
            push(cx.out, tail);
            return Progress::Done;
        }
        let sum = body.wrapping_add(sum(tail));
        push(cx.out, &summary(call, bytes + tail.len(), sum, parts, refusal));
        Progress::Done
    }
}

impl Echo {
    /// Defers the reply to a call, or sends the last deferred one.
    fn defer_or_answer(
        &self,
        cx: &mut Context<'_, Self>,
        call: Call,
        message: &[u8],
    ) -> Progress<EchoContinuation> {
        let mut late = self.deferred.lock();
        if call.0 == b'l' {
            late.push_back((cx.detach(), message.to_vec()));
            return Progress::Detached;
        }
        push(cx.out, message);
        if let Some((late, body)) = late.pop_back() {
            std::thread::spawn(move || late.resume(EchoContinuation(body)));
        }
        Progress::Done
    }
}

/// Changes the standing of a client: it proves itself, is tolerated, or begins a handshake, which need not finish.
fn change_standing(cx: &mut Context<'_, Echo>, call: Call, message: &[u8]) -> Progress<EchoContinuation> {
    match call.0 {
        b'v' => cx.connection.prove(),
        b'y' => cx.connection.tolerate(),
        _ => {
            let may_begin = cx.connection.begin_handshake();
            push(cx.out, &[b'j', u8::from(may_begin)]);
            return if may_begin {
                Progress::Switch(Box::new(Cipher { never_agrees: true, ..Cipher::default() }))
            } else {
                Progress::Done
            };
        }
    }
    push(cx.out, message);
    Progress::Done
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}

fn summary(call: Call, bytes: usize, sum: u64, parts: usize, refusal: Option<FsError>) -> Vec<u8> {
    let how = if parts > 0 { "in parts" } else { "whole" };
    let text = refusal.map_or(format!("{bytes} bytes, sum {sum}, {how}"), |error| error.to_string());
    [&[call.0, call.1], text.as_bytes()].concat()
}

struct Running {
    echo: Arc<Echo>,
    server: Server<Echo>,
    address: SocketAddr,
}

struct Client {
    stream: TcpStream,
    cipher: Option<Cipher>,
    wire: Vec<u8>,
    plain: Vec<u8>,
}

/// Room for about 360 connections, more than any test makes.
fn settings() -> Settings {
    Settings::for_descriptors(2, 4000)
}

impl Running {
    fn new(echo: Echo) -> Self {
        Self::with(echo, settings())
    }

    fn with(echo: Echo, settings: Settings) -> Self {
        let echo = Arc::new(echo);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::start(Arc::clone(&echo), "toy", vec![(listener, "echo")], settings).unwrap();
        Self { echo, server, address }
    }

    fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    fn connect_as(&self, source: [u8; 4]) -> Client {
        let fd = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&fd, &SocketAddrV4::new(source.into(), 0)).unwrap();
        connect(&fd, &self.address).unwrap();
        Client::new(fd.into())
    }
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, cipher: None, wire: Vec::new(), plain: Vec::new() }
    }

    fn send(&mut self, bodies: &[&[u8]]) {
        let framed = |body: &&[u8]| [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], *body].concat();
        let plain = bodies.iter().flat_map(framed).collect::<Vec<u8>>();
        let mut wire = Vec::new();
        match &mut self.cipher {
            Some(cipher) => cipher.seal(&plain, &mut wire).unwrap(),
            None => wire = plain,
        }
        self.stream.write_all(&wire).unwrap();
    }

    fn begin_cipher(&mut self) {
        let mut cipher = Cipher::default();
        let wire = std::mem::take(&mut self.plain);
        let used = cipher.open_records(&wire, &mut self.plain);
        self.wire = wire[used..].to_vec();
        self.cipher = Some(cipher);
    }

    fn receive(&mut self) -> Vec<u8> {
        loop {
            if let Some(length) = self.plain.first_chunk() {
                let end = FRAMING + u32::from_be_bytes(*length) as usize;
                if self.plain.len() >= end {
                    let body = self.plain[FRAMING..end].to_vec();
                    self.plain.drain(..end);
                    return body;
                }
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the server has closed");
            match &mut self.cipher {
                Some(cipher) => {
                    self.wire.extend(&bytes[..count]);
                    let used = cipher.open_records(&self.wire, &mut self.plain);
                    self.wire.drain(..used);
                }
                None => self.plain.extend(&bytes[..count]),
            }
        }
    }

    fn ask(&mut self, body: &[u8]) -> Vec<u8> {
        self.send(&[body]);
        self.receive()
    }

    fn is_ended(&mut self) -> bool {
        match self.stream.read(&mut [0; 16]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn count(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

#[test]
fn messages_are_planned_and_run_once_with_every_dispatch() {
    let running = Running::new(Echo::default());
    let mut client = running.connect();
    let kinds = [b'e', b'b', b'o', b'w', b'e', b'b', b'w', b'o'];
    let bodies: Vec<[u8; 3]> = (0u8..).zip(kinds).map(|(number, kind)| [kind, number, 9]).collect();
    client.send(&bodies.iter().map(|body| &body[..]).collect::<Vec<_>>());
    let mut replies: Vec<Vec<u8>> = bodies.iter().map(|_| client.receive()).collect();
    replies.sort_by_key(|reply| reply[1]);
    assert_eq!(replies, bodies);
    let echo = &running.echo;
    assert_eq!((count(&echo.plans), count(&echo.runs)), (kinds.len(), kinds.len()));
    assert_eq!((count(&echo.resumes), count(&echo.synced)), (2, 2));
}

#[test]
fn messages_cut_at_any_byte_are_understood() {
    let running = Running::new(Echo::default());
    let mut client = running.connect();
    for cut in 1..12 {
        let both = [&[0, 0, 0, 3, b'e', 1, cut][..], &[0, 0, 0, 2, b'b', 2]].concat();
        let (first, second) = both.split_at(usize::from(cut));
        client.stream.write_all(first).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        client.stream.write_all(second).unwrap();
        assert_eq!(client.receive(), [b'e', 1, cut]);
        assert_eq!(client.receive(), [b'b', 2]);
    }
}

#[test]
fn deferred_replies_come_in_any_order_while_others_are_answered() {
    let running = Running::new(Echo::default());
    let mut client = running.connect();
    client.send(&[b"l\x01first", b"l\x02second", b"e\x03"]);
    assert_eq!(client.receive(), b"e\x03");
    wait_until("two calls in progress", || running.server.view().clients()[0].waiting == 2);
    for (number, late) in [(4, &b"l\x02second"[..]), (5, b"l\x01first")] {
        let mut replies = [client.ask(&[b'a', number]), client.receive()];
        replies.sort();
        assert_eq!(replies, [vec![b'a', number], late.to_vec()]);
    }
    wait_until("the end of both", || running.server.view().clients()[0].waiting == 0);
}

#[test]
fn a_dropped_deferred_reply_blocks_nothing_and_lets_its_connection_end() {
    let running = Running::new(Echo::default());
    let mut client = running.connect();
    client.send(&[b"l\x01"]);
    assert_eq!(client.ask(b"e\x02"), b"e\x02");
    drop(client);
    assert_eq!(running.connect().ask(b"e\x03"), b"e\x03");
    drop(running.echo.deferred.lock().pop_front());
    wait_until("the end of the connections", || running.server.view().connections() == 0);
}

#[test]
fn the_server_sends_its_own_messages_and_receives_replies_to_them() {
    let running = Running::new(Echo::default());
    let mut clients = [running.connect(), running.connect()];
    for client in &mut clients {
        assert_eq!(client.ask(b"h\x01"), b"h\x01");
    }
    let listening = running.echo.listeners.lock().clone();
    let threads = listening.into_iter().flat_map(|connection| {
        (0..4u8).map(move |number| {
            let connection = connection.clone();
            std::thread::spawn(move || {
                let mut out = Outbox::default();
                push(&mut out, &[b'!', number]);
                connection.upgrade().unwrap().send(&mut out);
            })
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    for client in &mut clients {
        let mut numbers: Vec<u8> = (0..4).map(|_| client.receive()[1]).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3]);
        client.send(&[b"r\x09"]);
        assert_eq!(client.ask(b"e\x05"), b"e\x05", "a reply has no reply");
    }
    assert_eq!(running.echo.received_replies.lock().len(), 2);
}

#[test]
fn a_transform_applies_to_every_byte_after_the_reply_that_begins_it() {
    let running = Running::new(Echo::default());
    let mut client = running.connect();
    assert_eq!(client.ask(b"m\x00"), [b'm', 1], "pages may be moved");
    assert_eq!(client.ask(b"t\x01"), b"t\x01", "in clear");
    client.begin_cipher();
    assert_eq!(client.ask(b"m\x00"), [b'm', 0], "what is sealed must be in memory");
    let bodies: Vec<Vec<u8>> = (0u8..60)
        .map(|number| {
            [&[*b"ebow".get(usize::from(number % 4)).unwrap(), number][..], &[number; 999]].concat()
        })
        .collect();
    client.send(&bodies.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut replies: Vec<Vec<u8>> = bodies.iter().map(|_| client.receive()).collect();
    replies.sort_by_key(|reply| reply[1]);
    assert_eq!(replies, bodies);
    let long = long_body(3 << 20);
    assert_eq!(client.ask(&long), summary((b's', 7), long.len() - 2, sum(&long[2..]), 1, None));
}

#[test]
fn bytes_received_with_the_switching_call_are_treated_as_sealed() {
    let running = Running::new(Echo::default());
    let mut client = running.connect();
    let mut sealed = Vec::new();
    let mut cipher = Cipher::default();
    cipher.seal(&[0, 0, 0, 3, b'e', 2, 3], &mut sealed).unwrap();
    client.stream.write_all(&[&[0, 0, 0, 2, b't', 1], &sealed[..]].concat()).unwrap();
    assert_eq!(client.receive(), b"t\x01");
    client.begin_cipher();
    assert_eq!(client.receive(), [b'e', 2, 3]);
}

#[test]
fn a_transform_is_offloaded_to_the_socket_between_two_messages() {
    let running = Running::new(Echo { kernel_bytes_max: Some(2000), ..Echo::default() });
    let mut client = running.connect();
    assert_eq!(client.ask(b"m\x01"), b"m\x01");
    assert_eq!(client.ask(b"t\x01"), b"t\x01");
    // This offload changes no byte.
    let mut sealed = Vec::new();
    Cipher::default().seal(&[0, 0, 0, 3, b'e', 2, 3, 0, 0, 0, 2, b'm', 4], &mut sealed).unwrap();
    client.stream.write_all(&sealed[..6]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    client.stream.write_all(&sealed[6..]).unwrap();
    assert_eq!(client.receive(), [b'e', 2, 3]);
    assert_eq!(client.receive(), b"m\x01", "pages of files go out again");
    let long = [b'e'; 1900];
    assert_eq!(client.ask(&long), long);
    client.send(&[&long]);
    let mut end = [0; 1];
    assert!(!matches!(client.stream.read(&mut end), Ok(1..)), "the keys are used up");
}

fn long_body(len: usize) -> Vec<u8> {
    let pattern = (0..len).map(|at| u8::try_from(at % 251).unwrap());
    [b's', 7].into_iter().chain(pattern).collect()
}

#[test]
fn long_bodies_are_streamed() {
    let running = Running::new(Echo::default());
    let mut client = running.connect();
    for len in [1, 1000, 190 << 10, 257 << 10, 300 << 10, 1 << 20, (3 << 20) + 1] {
        let long = long_body(len);
        let framed = long.len() + FRAMING;
        let is_short = framed <= transport::limits::WHOLE_MESSAGE_BYTES_MAX;
        let [whole, parts] = [0, 1].map(|streamed| summary((b's', 7), len, sum(&long[2..]), streamed, None));
        client.send(&[&long, b"e\x01", &long]);
        let mut replies = [client.receive(), client.receive(), client.receive()];
        replies.sort();
        assert_eq!(replies[0], b"e\x01", "{len}");
        for reply in &replies[1..] {
            // A message that fits into a receive buffer may arrive as a whole.
            let may_be_whole = framed <= transport::limits::BUFFER_BYTES;
            assert!(*reply == whole && may_be_whole || *reply == parts && !is_short, "{len}: {reply:?}");
        }
    }
    // Slowly, with pauses anywhere.
    let long = long_body(700 << 10);
    let framed = [&u32::try_from(long.len()).unwrap().to_be_bytes()[..], &long].concat();
    for piece in framed.chunks(90_001) {
        client.stream.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(7));
    }
    assert_eq!(client.receive(), summary((b's', 7), 700 << 10, sum(&long[2..]), 1, None));
}

#[test]
fn long_tails_are_received_whole_without_bytes_of_others() {
    let running = Running::new(Echo::default());
    let kept = |number: u8, len: usize| {
        let pattern = (0..len).map(|at| u8::try_from(at % 251).unwrap().wrapping_mul(number));
        [b'k', number].into_iter().chain(pattern).collect::<Vec<u8>>()
    };
    let mut clients = [running.connect(), running.connect()];
    let lens = [1 << 20, 200 << 10, TAIL_BYTES_MAX - 2, 300 << 10, 257 << 10];
    for (number, len) in (1..).zip(lens) {
        let [one, other] = [kept(number, len), kept(number + 100, len - 1000)];
        for client in &mut clients {
            client.send(&[&one, b"e\x01", &other]);
        }
        for client in &mut clients {
            let mut replies = [client.receive(), client.receive(), client.receive()];
            replies.sort();
            assert!(replies == [b"e\x01".to_vec(), one.clone(), other.clone()], "{len}");
        }
    }
    // Slowly, with pauses anywhere, while another client continues.
    let [slow, fast] = &mut clients;
    let long = kept(50, 700 << 10);
    let framed = [&u32::try_from(long.len()).unwrap().to_be_bytes()[..], &long].concat();
    for (number, piece) in (51..).zip(framed.chunks(90_001)) {
        slow.stream.write_all(piece).unwrap();
        let meanwhile = kept(number, 400 << 10);
        assert!(fast.ask(&meanwhile) == meanwhile, "{number}");
    }
    assert!(slow.receive() == long);
    // Longer than the limit.
    let too_long = u32::try_from(TAIL_BYTES_MAX + 1).unwrap().to_be_bytes();
    slow.stream.write_all(&[&too_long[..], b"k\x01"].concat()).unwrap();
    assert!(slow.is_ended());
}

#[test]
fn limits_queue_calls_and_long_bodies_and_delay_nothing_else() {
    let pacer = Pacer::start().unwrap();
    // Ten calls and a body take five seconds: enough time for the unlimited call to finish first.
    let limits = Limits { ops: NonZeroU64::new(2), ..Limits::NONE };
    let running = Running::new(Echo { gate: Some(Gate::per_client(limits, &pacer)), ..Echo::default() });
    let mut client = running.connect();
    let long = long_body(1 << 20);
    let calls = 10u8;
    let limited: Vec<[u8; 2]> = (0..calls).map(|number| [b'q', number]).collect();
    let mut bodies: Vec<&[u8]> = limited.iter().map(|body| &body[..]).collect();
    bodies.extend([&long[..], b"e\x63"]);
    let start = Instant::now();
    client.send(&bodies);
    let replies: Vec<Vec<u8>> = bodies.iter().map(|_| client.receive()).collect();
    let echoed = replies.iter().position(|reply| reply[0] == b'e').unwrap();
    assert!(echoed < replies.len() - 1, "what is not limited does not wait: {echoed}");
    assert!(start.elapsed() > Duration::from_millis(200), "{:?}", start.elapsed());
    let summed = replies.iter().find(|reply| reply[0] == b's').unwrap();
    assert_eq!(*summed, summary((b's', 7), 1 << 20, sum(&long[2..]), 0, None), "put together while it waits");
    let echo = &running.echo;
    assert_eq!(count(&echo.plans), bodies.len(), "what waits is not planned again");
}

#[test]
fn queued_replies_reach_only_their_own_client() {
    let pacer = Pacer::start().unwrap();
    let limits = Limits { ops: NonZeroU64::new(20), ..Limits::NONE };
    let echo = Echo { gate: Some(Gate::per_client(limits, &pacer)), ..Echo::default() };
    let running = Running::with(echo, Settings::for_descriptors(1, 1000));
    let (mut client, mut bystander) = (running.connect(), running.connect());
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 64 << 10).unwrap();
    let mut calls: Vec<[u8; 2]> = (0..20).map(|number| [b'q', number]).collect();
    calls[15][0] = b'u';
    client.send(&calls.iter().map(|call| &call[..]).collect::<Vec<_>>());
    wait_until("all calls", || count(&running.echo.plans) == calls.len());
    // Meanwhile all other calls are admitted.
    assert_eq!(bystander.ask(b"z\x01"), b"z\x01");
    for number in 0..9 {
        assert_eq!(bystander.ask(&[b'e', number]), [b'e', number]);
    }
    let mut replies: Vec<Vec<u8>> = (0..=calls.len()).map(|_| client.receive()).collect();
    replies.retain(|reply| reply[0] != b'!');
    replies.sort_by_key(|reply| reply[1]);
    assert_eq!(replies, calls);
}

#[test]
fn a_panic_or_a_malformed_message_ends_only_its_connection() {
    let running = Running::new(Echo::default());
    let (mut bystander, mut panics, mut malformed) =
        (running.connect(), running.connect(), running.connect());
    panics.send(&[b"p\x01"]);
    assert!(panics.is_ended());
    malformed.stream.write_all(&[0, 0, 0, 3, b'e', 1, 2, 0xff, 0xff, 0xff, 0xff]).unwrap();
    assert_eq!(malformed.receive(), [b'e', 1, 2], "what came before is answered");
    assert!(malformed.is_ended());
    assert_eq!(bystander.ask(b"b\x01"), b"b\x01");
}

#[test]
fn a_panic_during_a_lease_releases_all_counts() {
    let running = Running::new(Echo::default());
    let mut client = running.connect();
    assert_eq!(client.ask(b"t\x01"), b"t\x01");
    client.begin_cipher();
    let mut wire = Vec::new();
    client.cipher.as_mut().unwrap().seal(&[0, 0, 0, 2, b'x', 2], &mut wire).unwrap();
    // A record of 100 bytes begins after it and does not end.
    wire.extend([100, 1, 2, 3]);
    client.stream.write_all(&wire).unwrap();
    let view = running.server.view();
    wait_until("the beginning of a record", || view.stats().spilled_bytes == 4);
    running.echo.may_panic.store(true, Ordering::SeqCst);
    assert!(client.is_ended());
    wait_until("the end of the count", || view.stats().spilled_bytes == 0);
}

#[test]
fn a_stop_sends_the_replies_to_calls_in_progress() {
    let running = Running::new(Echo::default());
    let mut client = running.connect();
    client.send(&[b"l\x01"]);
    assert_eq!(client.ask(b"e\x02"), b"e\x02");
    let (late, body) = running.echo.deferred.lock().pop_front().unwrap();
    let answers = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        let mut out = Outbox::default();
        push(&mut out, &body);
        late.send(&mut out);
    });
    running.server.stop(PATIENCE);
    answers.join().unwrap();
    assert_eq!(client.receive(), b"l\x01");
    assert!(client.is_ended());
}
