//! Cost of a byte range that is locked and unlocked: `cargo bench -p vfs --bench locks`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::time::Instant;
use vfs::FileKey;
use vfs::claims::{
    Access, Claims, Grace, HolderId, LockOwner, LockRequest, OpenId, OpenRequest, Queueing, Request, Rights,
    Span, Stream, Timeouts, Verdict,
};
use vfs::qos::Nanos;

const NOW: Nanos = Nanos(1_000_000_000);

/// A file in which each of some owners has some ranges.
struct File {
    claims: Claims,
    key: FileKey,
    opens: Vec<OpenId>,
    ranges: u64,
    is_enforced: bool,
}

impl File {
    fn new(owners: u64, ranges: u64, is_enforced: bool) -> Self {
        let claims = Claims::new(Timeouts::default(), Grace::default());
        let key = FileKey::new(&[7, 1, 7, 2, 9, 9, 9, 9, 1, 2, 3, 4]).expect("a short key");
        let mut file = Self { claims, key, opens: Vec::new(), ranges, is_enforced };
        file.opens = (0..owners.max(1)).map(|owner| file.open(HolderId(owner))).collect();
        for owner in 0..owners {
            (0..ranges).for_each(|range| file.lock(owner, range));
        }
        file
    }

    fn open(&self, holder: HolderId) -> OpenId {
        let request = OpenRequest {
            holder,
            stream: Stream::default(),
            access: Access { rights: Rights::READ | Rights::WRITE, deny: Rights::NONE },
            truncates: false,
            is_mandatory: self.is_enforced,
            is_advisory: false,
            lease: None,
            reclaims: false,
            waits: false,
        };
        match self.claims.apply(NOW, &self.key, &Request::Open(request)).0 {
            Verdict::Granted(granted) => granted.open.expect("an open"),
            other => panic!("{other:?}"),
        }
    }

    fn owner(&self, owner: u64) -> LockOwner {
        LockOwner { holder: HolderId(owner), owner: 1 }
    }

    /// Spaces the ranges so that none touch.
    fn span(&self, owner: u64, range: u64) -> Span {
        Span::clamped((owner * (self.ranges + 1) + range) * 20, 10)
    }

    fn apply(&self, request: &Request) {
        let (verdict, _) = self.claims.apply(NOW, &self.key, black_box(request));
        assert!(matches!(verdict, Verdict::Granted(_)), "{verdict:?}");
    }

    fn lock(&self, owner: u64, range: u64) {
        self.apply(&Request::Lock(LockRequest {
            owner: self.owner(owner),
            open: Some(self.opens[usize::try_from(owner).expect("few") % self.opens.len()]),
            stream: Stream::default(),
            span: self.span(owner, range),
            is_exclusive: true,
            is_enforced: self.is_enforced,
            reclaims: false,
            queueing: Queueing::Never,
        }));
    }

    fn unlock(&self, owner: u64, range: u64) {
        self.apply(&Request::Unlock {
            owner: self.owner(owner),
            stream: Stream::default(),
            span: self.span(owner, range),
            enforced: self.is_enforced,
            is_exclusive: None,
        });
    }
}

/// Times lock and unlock pairs. Each pair re-takes a range of an owner, or adds and removes one more.
fn pairs(what: &str, calls: u64, file: &File) {
    let owners = file.opens.len() as u64;
    let start = Instant::now();
    for call in 0..calls {
        let owner = call.wrapping_mul(7919) % owners;
        if file.ranges == 0 {
            file.lock(owner, 0);
            file.unlock(owner, 0);
        } else {
            let range = call.wrapping_mul(104_729) % file.ranges;
            file.unlock(owner, range);
            file.lock(owner, range);
        }
    }
    println!("{what:<60} {:>7.1} ns", start.elapsed().as_secs_f64() * 1e9 / calls as f64);
}

/// The number of pairs can be an argument, to count instructions with another tool.
fn main() {
    let mut given = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let only = given.next();
    let calls = given.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    for is_enforced in [false, true] {
        let kind = if is_enforced { "enforced" } else { "advisory" };
        for (owners, ranges) in [(1, 0), (1, 2), (100, 2), (1, 8000), (2000, 4)] {
            let what = format!("{kind}, {owners} owners with {ranges} ranges each");
            if only.as_ref().is_none_or(|only| what.contains(only.as_str())) {
                pairs(&what, calls, &File::new(owners, ranges, is_enforced));
            }
        }
    }
}
