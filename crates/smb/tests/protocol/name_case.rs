//! Concurrent creation of names that differ only by case: exactly one succeeds.

use crate::file_information::{dispose, rename};
use crate::rename::link;
use crate::rig::{Client, Opening, Rig};
use crate::settings::listed;
use smb_wire::create::{CreateAction, CreateDisposition};
use smb_wire::ioctl::CtlCode;
use smb_wire::reparse::{NfsFile, ReparseData};
use smb_wire::{Encode, NtStatus};
use std::sync::Barrier;
use vfs::{Blocking, Caller, Disposition, PendingSync, SetAttrs};

/// Enough rounds for the two clients to collide.
const ROUNDS: usize = 300;

/// One client's turn in a round.
#[derive(Clone, Copy)]
struct Attempt {
    /// The index of the client, 0 or 1.
    which: usize,
    round: usize,
}

/// Runs two clients concurrently in each of many rounds and collects their results.
fn race<T: Send>(rig: &Rig, act: impl Fn(&mut Client, &dyn Fn(), Attempt) -> T + Sync) -> Vec<[T; 2]> {
    let barrier = Barrier::new(2);
    let of_one = |which| {
        let (mut client, barrier, act) = (rig.alice(), &barrier, &act);
        move || {
            let meet = || _ = barrier.wait();
            (0..ROUNDS).map(|round| act(&mut client, &meet, Attempt { which, round })).collect::<Vec<_>>()
        }
    };
    let (mut first, second) = (of_one(0), of_one(1));
    std::thread::scope(|scope| {
        let others = scope.spawn(second);
        let ours = first();
        ours.into_iter().zip(others.join().unwrap()).map(|(one, other)| [one, other]).collect()
    })
}

/// The name of a round, in the spelling of one of the two clients.
fn spelled(Attempt { which, round }: Attempt) -> String {
    format!("{}{round}", ["name", "NAME"][which])
}

/// Counts a result among both clients.
fn count<T: PartialEq>(of: &[T; 2], what: &T) -> usize {
    of.iter().filter(|one| *one == what).count()
}

/// CREATE, once both clients are ready.
fn make(
    opening: Opening,
) -> impl Fn(&mut Client, &dyn Fn(), Attempt) -> Result<CreateAction, NtStatus> + Sync {
    move |client, meet, who| {
        meet();
        client.action(&spelled(who), opening)
    }
}

#[test]
fn concurrent_creates_make_one_file() {
    let (created, opened) = (Ok(CreateAction::CREATED), Ok(CreateAction::OPENED));
    for opening in [Opening::default(), Opening::dir()] {
        for both in race(&Rig::new(), make(opening)) {
            assert_eq!((count(&both, &created), count(&both, &opened)), (1, 1), "{both:?}");
        }
    }
    let collides = Err(NtStatus::OBJECT_NAME_COLLISION);
    for both in race(&Rig::new(), make(Opening::by(CreateDisposition::CREATE))) {
        assert_eq!((count(&both, &created), count(&both, &collides)), (1, 1), "{both:?}");
    }
}

#[test]
fn concurrent_renames_give_one_name() {
    for gives in [link, |client: &mut _, file, to: &str| rename(client, file, to, false)] {
        let act = |client: &mut Client, meet: &dyn Fn(), Attempt { which, round }: Attempt| {
            let file = client.open(&format!("{which} {round}"), Opening::default());
            meet();
            let given = gives(client, file, &spelled(Attempt { which, round }));
            client.close(file);
            given
        };
        for both in race(&Rig::new(), act) {
            let counted = [NtStatus::SUCCESS, NtStatus::OBJECT_NAME_COLLISION].map(|it| count(&both, &it));
            assert_eq!(counted, [1, 1], "{both:?}");
        }
    }
}

#[test]
fn concurrent_create_and_rename_give_one_name() {
    let act = |client: &mut Client, meet: &dyn Fn(), Attempt { which, round }: Attempt| {
        let file = client.open(&format!("{which} {round}"), Opening::default());
        meet();
        let status = match which {
            0 => client
                .create(&spelled(Attempt { which, round }), Opening::by(CreateDisposition::CREATE))
                .status(),
            _ => rename(client, file, &spelled(Attempt { which, round }), false),
        };
        client.close(file);
        status
    };
    for both in race(&Rig::new(), act) {
        let counted = [NtStatus::SUCCESS, NtStatus::OBJECT_NAME_COLLISION].map(|it| count(&both, &it));
        assert_eq!(counted, [1, 1], "{both:?}");
    }
}

/// A file that is superseded keeps its name.
#[test]
fn name_of_superseded_file_stays_unique() {
    let fifo = ReparseData::Nfs(NfsFile::Fifo).to_bytes();
    let act = |client: &mut Client, meet: &dyn Fn(), Attempt { which, round }: Attempt| {
        let name = spelled(Attempt { which, round });
        if which == 1 {
            meet();
            return client.create(&name, Opening::by(CreateDisposition::CREATE)).status();
        }
        let file = client.open(&name, Opening::default());
        meet();
        let set = client.ioctl(file, CtlCode::SET_REPARSE_POINT, &fifo, 0).status();
        client.close(file);
        set
    };
    for both in race(&Rig::new(), act) {
        assert_eq!(both, [NtStatus::SUCCESS, NtStatus::OBJECT_NAME_COLLISION]);
    }
}

/// Also for a stream whose file is created for it.
#[test]
fn concurrent_creates_make_one_stream() {
    let rig = Rig::new();
    rig.alice().put("file", b"");
    for is_there in [true, false] {
        let act = |client: &mut Client, meet: &dyn Fn(), Attempt { which, round }: Attempt| {
            let base = if is_there { "file".to_owned() } else { spelled(Attempt { which, round }) };
            meet();
            client.action(
                &format!("{base}:{}", spelled(Attempt { which: 1 - which, round })),
                Opening::default(),
            )
        };
        for both in race(&rig, act) {
            let counted = [CreateAction::CREATED, CreateAction::OPENED].map(|it| count(&both, &Ok(it)));
            assert_eq!(counted, [1, 1], "{both:?}");
        }
    }
}

/// Every listed spelling opens, renames and deletes exactly its file, even if another name has a character that maps to
/// the same wire character.
#[test]
fn listed_name_identifies_one_file() {
    let rig = Rig::new();
    let caller = Caller::new(0, 0, []);
    let root = rig.namespace.load().exports()[0].root();
    let reserved = "\"*:<>?\\|".chars().zip('\u{f020}'..='\u{f027}');
    let controls = ('\u{1}'..='\u{1f}').zip('\u{f001}'..='\u{f01f}');
    let mut names: Vec<String> = Vec::new();
    for (plain, twin) in reserved.chain(controls) {
        names.extend([plain, twin].map(|c| format!("a{c}b")));
        names.extend([format!("{twin}{plain}"), format!("\u{f02a}{twin}"), format!("\u{f02a}{plain}")]);
    }
    for end in [" ", "\u{f028}", ".", "\u{f029}", "\u{f02a}", "\u{f02a}\u{f02a}", ". ", ".\u{f028}"] {
        names.push(format!("end{end}"));
    }
    names.extend(["A:B", "A\u{f022}B", "\u{f02b}"].map(str::to_owned));
    for name in &names {
        let set = SetAttrs { mode: Some(0o666), ..SetAttrs::default() };
        root.create(&caller, name.as_bytes(), Disposition::CreateNew, &set, &mut PendingSync::default())
            .unwrap();
    }
    let mut client = rig.alice();
    let all = listed(&mut client, "*");
    assert_eq!(all.len(), names.len());
    for spelled in &all {
        client.put(spelled, spelled.as_bytes());
    }
    let mut left: Vec<String> = names.clone();
    for spelled in &all {
        let one = listed(&mut client, spelled);
        assert_eq!(one, std::slice::from_ref(spelled), "asked for alone");
        let file = client.open(spelled, Opening::by(CreateDisposition::OPEN));
        assert_eq!(client.data(file, 0, 100), spelled.as_bytes(), "{spelled:?}");
        assert_eq!(rename(&mut client, file, "moved", false), NtStatus::SUCCESS);
        let dir = root.open_dir(&caller, Blocking::Allowed).unwrap();
        let before = left.len();
        left.retain(|name| dir.lookup(name.as_bytes(), Blocking::Allowed).is_ok());
        assert_eq!(left.len(), before - 1, "{spelled:?} is one of them");
        let deleted = dispose(&mut client, file, true);
        client.close(file);
        assert_eq!(deleted, NtStatus::SUCCESS);
    }
    assert!(left.is_empty());
}
