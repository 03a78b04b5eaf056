//! A vault in a bucket of a real server, which `conformance/s3/run` starts and describes in `PLIMSOLL_S3`:
//! endpoint, bucket, access key, secret key, and the file of its issuer or nothing, with commas between.

use crate::rig::{Volume, new_id, noise, owner, random, seconds, source};
use crate::trees;
use replicate::store::{ObjectStore, S3, S3Options};
use replicate::{
    Depth, Job, Key, Manifest, Restore, Selection, Source, Sweep, Vault, VaultOptions, Verify, backup,
    compare, delete, restore, sweep, verify,
};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::Time;

fn options(prefix: &str) -> S3Options {
    let described = std::env::var("PLIMSOLL_S3").expect("conformance/s3/run sets PLIMSOLL_S3");
    let parts: Vec<&str> = described.split(',').collect();
    let [endpoint, bucket, access_key, secret_key, issuer] = parts[..] else {
        panic!("five parts: {described}")
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    S3Options {
        endpoint: endpoint.to_owned(),
        bucket: bucket.to_owned(),
        prefix: format!("{prefix}/{}", since.as_nanos()),
        region: "us-east-1".to_owned(),
        access_key: access_key.to_owned(),
        secret_key: secret_key.to_owned(),
        session_token: None,
        issuers: (!issuer.is_empty()).then(|| std::fs::read(issuer).unwrap()),
    }
}

fn unpaced(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn open(prefix: &str) -> S3 {
    S3::new(options(prefix)).unwrap()
}

fn names(store: &dyn ObjectStore, prefix: &str) -> Vec<(String, u64)> {
    let mut names = Vec::new();
    let sink = &mut |name: &str, size| {
        names.push((name.to_owned(), size));
        ControlFlow::Continue(())
    };
    store.list(prefix, sink).unwrap();
    names.sort();
    names
}

#[test]
#[ignore = "conformance/s3/run starts a server for it"]
fn objects_are_put_once_and_read_in_parts() {
    let store = open("objects");
    assert!(store.put_new("a/one", b"content", &mut unpaced).unwrap());
    assert!(!store.put_new("a/one", b"other", &mut unpaced).unwrap());
    assert_eq!(store.read("a/one", 0, 99).unwrap(), b"content");
    assert_eq!(store.read("a/one", 2, 3).unwrap(), b"nte");
    assert_eq!(store.size("a/one").unwrap(), Some(7));
    assert_eq!(store.size("a/two").unwrap(), None);
    assert_eq!(store.read("a/two", 0, 1).unwrap_err().kind(), ErrorKind::NotFound);
    // In parts.
    let large = noise(1, (20 << 20) + 5);
    assert!(store.put_new("a/large", &large, &mut unpaced).unwrap());
    assert!(!store.put_new("a/large", b"other", &mut unpaced).unwrap());
    assert_eq!(store.size("a/large").unwrap(), Some(large.len() as u64));
    assert_eq!(store.read("a/large", 0, 30 << 20).unwrap(), large);
    assert_eq!(store.read("a/large", 16_777_210, 20).unwrap(), large[16_777_210..][..20]);
    // A part of a name is a prefix, too.
    assert_eq!(names(&store, "a/o"), [("a/one".to_owned(), 7)]);
    assert_eq!(names(&store, "").len(), 2);
    store.delete("a/one").unwrap();
    store.delete("a/one").unwrap();
    assert_eq!(store.size("a/one").unwrap(), None);
}

#[test]
#[ignore = "conformance/s3/run starts a server for it"]
fn list_has_several_pages() {
    let store = open("pages");
    for number in 0..1_005 {
        assert!(store.put_new(&format!("many/{number:04}"), b"x", &mut unpaced).unwrap());
    }
    let found = names(&store, "many/");
    assert!(
        found.iter().map(|(name, _)| name.clone()).eq((0..1_005).map(|number| format!("many/{number:04}")))
    );
}

#[test]
#[ignore = "conformance/s3/run starts a server for it"]
fn one_of_many_writers_puts_a_name() {
    let options = options("race");
    for round in 0..5 {
        let name = format!("round-{round}");
        let put = |writer: usize| {
            S3::new(options.clone()).unwrap().put_new(
                &name,
                &[b'0' + u8::try_from(writer).unwrap(); 9],
                &mut unpaced,
            )
        };
        let won: Vec<usize> = std::thread::scope(|scope| {
            let put = &put;
            let writers: Vec<_> = (0..8).map(|writer| scope.spawn(move || put(writer))).collect();
            let won = writers.into_iter().map(|writer| writer.join().unwrap().unwrap());
            won.enumerate().filter_map(|(writer, won)| won.then_some(writer)).collect()
        });
        assert_eq!(won.len(), 1, "{won:?}");
        let content = S3::new(options.clone()).unwrap().read(&name, 0, 9).unwrap();
        assert_eq!(usize::from(content[0] - b'0'), won[0]);
    }
}

#[test]
#[ignore = "conformance/s3/run starts a server for it"]
fn wrong_credentials_and_unknown_issuers_are_refused() {
    let good = options("refused");
    let wrong = S3::new(S3Options { secret_key: "wrong".to_owned(), ..good.clone() }).unwrap();
    // moto accepts any.
    if std::env::var_os("PLIMSOLL_S3_ANY_KEY").is_none() {
        let error = wrong.put_new("name", b"x", &mut unpaced).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
    if good.issuers.is_some() {
        let strict = S3::new(S3Options { issuers: None, ..good.clone() }).unwrap();
        let error = strict.put_new("name", b"x", &mut unpaced).unwrap_err();
        assert!(format!("{error:?}").to_lowercase().contains("certificate"), "{error:?}");
    }
    let bad = S3::new(S3Options { issuers: Some(b"no certificate".to_vec()), ..good }).err().unwrap();
    assert_eq!(bad.kind(), ErrorKind::InvalidData);
}

#[test]
#[ignore = "conformance/s3/run starts a server for it"]
fn server_that_does_not_answer_is_an_error_within_bounds() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let store = S3::new(S3Options { endpoint, issuers: None, ..options("nobody") }).unwrap();
    let error = store.put_new("name", b"x", &mut unpaced).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other, "{error}");
}

struct Vaulted {
    vault: Vault,
    scratch: tempfile::TempDir,
}

impl Vaulted {
    fn new(prefix: &str) -> Self {
        let options = VaultOptions { key: Some(Key([8; 32])), owner: owner(1), created: seconds(1) };
        let vault = Vault::create(Arc::new(open(prefix)), &options, &mut random).unwrap();
        Self { vault, scratch: tempfile::tempdir().unwrap() }
    }

    fn back_up(&self, source: &Source<'_>) -> Manifest {
        let mut job = Job {
            scratch: self.scratch.path(),
            random: &mut random,
            now: &|| seconds(2_000),
            pace: &mut |_| ControlFlow::Continue(()),
            progress: &mut |_| ControlFlow::Continue(()),
        };
        backup(&self.vault, new_id(), source, &mut job).unwrap()
    }
}

#[test]
#[ignore = "conformance/s3/run starts a server for it"]
fn vault_in_a_bucket_is_written_checked_restored_and_swept() {
    let (rig, volume) = (Vaulted::new("vault"), Volume::new());
    trees::fill(&volume);
    volume.put("large", &noise(7, 90 << 20));
    volume.advance(10);
    let first = rig.back_up(&source(&volume, None, seconds(volume.now())));
    volume.put("large", &noise(8, 5 << 20));
    volume.advance(1);
    let second = rig.back_up(&source(&volume, Some(first.id), seconds(volume.now())));
    assert!(second.totals.sent_bytes < 6 << 20, "{}", second.totals.sent_bytes);
    assert_eq!(rig.vault.list().unwrap().backups, [first.clone(), second.clone()]);
    delete(&rig.vault, first.id, seconds(9), &mut random).unwrap();
    let mut job =
        Sweep { random: &mut random, now: &|| seconds(9), progress: &mut |_, _| ControlFlow::Continue(()) };
    assert_eq!(sweep(&rig.vault, &mut job).unwrap().backups, 1);
    let progress = &mut |_, _| ControlFlow::Continue(());
    let mut job = Verify { depth: Depth::Data, pace: &mut |_| ControlFlow::Continue(()), progress };
    assert_eq!(verify(&rig.vault, &second, &mut job).unwrap(), []);
    let target = Volume::new();
    let progress = &mut |_: &_| ControlFlow::Continue(());
    let mut job = Restore { selection: Selection::Whole, pace: &mut |_| ControlFlow::Continue(()), progress };
    restore(&rig.vault, &second, &target.fs, &mut job).unwrap();
    let found = compare(&rig.vault, &second, &target.fs, 9, &mut || ControlFlow::Continue(())).unwrap();
    assert_eq!(found, []);
}

/// `conformance/s3/lock.py` looks at the objects afterwards.
#[test]
#[ignore = "conformance/s3/run starts a server for it"]
fn locked_backup_is_locked_in_the_bucket() {
    let (rig, volume) = (Vaulted::new("locked"), Volume::new());
    trees::fill(&volume);
    let until = Time { seconds: 4_102_444_799, nanos: 0 };
    let locked = Source { locked_until: Some(until), ..source(&volume, None, seconds(volume.now())) };
    rig.back_up(&locked);
    let store = open("one");
    store.put_new("name", b"x", &mut unpaced).unwrap();
    let has_lock = std::env::var_os("PLIMSOLL_S3_LOCK").is_some();
    assert_eq!(store.retain("name", until).unwrap(), has_lock);
}
