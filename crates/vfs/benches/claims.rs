//! What the table of claims costs a call: `cargo bench -p vfs --bench claims`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::time::Instant;
use vfs::FileKey;
use vfs::claims::{
    Access, Claims, Grace, HolderId, Io, IoKind, OpenRequest, Request, Requester, Rights, Span, Stream,
    Timeouts,
};
use vfs::qos::Nanos;

const CALLS: u32 = 5_000_000;
const NOW: Nanos = Nanos(1_000_000_000);

fn key(number: u32) -> FileKey {
    FileKey::new(&[7, number.to_le_bytes()[0], 7, number.to_le_bytes()[1], 9, 9, 9, 9, 1, 2, 3, 4])
        .expect("a short key")
}

fn report(what: &str, start: Instant) {
    println!("{what:<60} {:>7.1} ns", start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
}

/// Reads of one file by a caller without state.
fn reads(what: &str, claims: &Claims, file: &FileKey) {
    let start = Instant::now();
    for call in 0..CALLS {
        let span = Span::clamped(u64::from(call) * 4096, 4096);
        let io = Io {
            by: Requester::Anonymous,
            stream: Stream::default(),
            kind: IoKind::Read,
            span,
            waits: false,
        };
        assert!(claims.io(|| NOW, black_box(file), black_box(io)).is_ok());
    }
    report(what, start);
}

fn open(claims: &Claims, file: &FileKey, deny: Rights) {
    let request = OpenRequest {
        holder: HolderId(1),
        stream: Stream::default(),
        access: Access { rights: Rights::READ, deny },
        truncates: false,
        is_mandatory: false,
        is_advisory: false,
        lease: None,
        reclaims: false,
        waits: false,
    };
    black_box(claims.apply(NOW, file, &Request::Open(request)));
}

fn main() {
    let claims = Claims::new(Timeouts::default(), Grace::default());
    reads("read without state, nothing held in the volume", &claims, &key(0));
    for file in 1..=1000 {
        open(&claims, &key(file), Rights::NONE);
    }
    reads("read without state, the file is open", &claims, &key(1));
    open(&claims, &key(1), Rights::WRITE);
    reads("read without state, a file is open against writes", &claims, &key(1));
    open(&claims, &key(1001), Rights::READ);
    let of_others = (2..).map(key).find(|file| file.shard::<64>() != key(1001).shard::<64>());
    reads(
        "read without state, another shard has a file open against reads",
        &claims,
        &of_others.expect("there is one"),
    );
    let beside = (2..).map(key).find(|file| file.shard::<64>() == key(1001).shard::<64>());
    reads(
        "read without state, the shard has a file open against reads",
        &claims,
        &beside.expect("there is one"),
    );
}
