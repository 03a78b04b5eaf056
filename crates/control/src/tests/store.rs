//! The file: who may open it, and how older ones are brought up to date.

use super::rig::{Rig, context, furnished, new_pool};
use crate::store::{MIGRATIONS, Store};
use crate::{Error, ExportRule, OPERATIONS_KEPT, Outcome, Protocols, STORE_FILE, StoreError};
use envelope::Level;
use rusqlite::Connection;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

fn refusal(rig: &Rig) -> StoreError {
    match Store::open(rig.dir.path(), None).err() {
        Some(Error::Store(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_file_is_the_owners_alone() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let files = fs::read_dir(rig.dir.path()).unwrap().map(Result::unwrap);
    let mut files: Vec<_> =
        files.map(|file| (file.file_name(), file.metadata().unwrap().permissions().mode() & 0o777)).collect();
    files.sort();
    assert_eq!(files, [("plimsoll.db".into(), 0o600), ("plimsoll.db-wal".into(), 0o600)]);
    drop(service);
    let path = rig.dir.path().join(STORE_FILE);
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let error = refusal(&rig);
    assert!(matches!(error, StoreError::Exposed { .. }), "{error}");
    assert!(error.to_string().contains("(mode 640): chmod 600 "), "{error}");
}

#[test]
fn one_service_holds_it() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let error = refusal(&rig);
    assert!(matches!(error, StoreError::Held(_)), "{error}");
    assert!(error.to_string().contains("another plimsoll serves from this data directory"), "{error}");
    drop(service);
    assert!(Store::open(rig.dir.path(), None).is_ok());
}

#[test]
fn an_older_file_is_brought_up_to_date_with_what_it_holds() {
    let rig = Rig::new().without_replica();
    let path = rig.dir.path().join(STORE_FILE);
    let old = Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../store/0001_served.sql")).unwrap();
    old.execute_batch(
        "PRAGMA application_id = 1349282157; PRAGMA user_version = 1;
         INSERT INTO pool VALUES (7, 'old', 'gcnv/premium', 4398046511104, '{}', 3, 10, 11);
         INSERT INTO pool_label VALUES (7, 'team', 'x');
         INSERT INTO volume VALUES (9, 'v', 'v', 7, NULL, 109951162777600, 109951162777600, '{}', 'nfsv3', 493, 0, 0, 0,
             'sync', 'deleting', 1, 10, 11);
         INSERT INTO rule VALUES (9, 1, '10.0.0.0/8', 'rw', 'none', 65534, 65534, 'nfsv3');",
    )
    .unwrap();
    drop(old);
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let store = Store::open(rig.dir.path(), None).unwrap();
    let rules = crate::store::rule::read(store.read(), 9).unwrap();
    assert_eq!(
        rules,
        [ExportRule {
            protocols: Protocols::NFS_V3,
            ..ExportRule::for_clients("10.0.0.0/8".parse().unwrap())
        }]
    );
    drop(store);
    let service = rig.open();
    let pool = service.pool(&"old".parse().unwrap()).unwrap();
    assert_eq!((pool.version, pool.size.0, pool.labels["team"].as_str()), (3, 4 << 40, "x"));
    service.create_token(&context(), &"t".parse().unwrap(), crate::Role::Read).unwrap();
    drop(service);
    let version: usize =
        Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, MIGRATIONS.len());
}

#[test]
fn files_of_others_and_of_later_versions_are_left_alone() {
    let rig = Rig::new().without_replica();
    drop(rig.open());
    let path = rig.dir.path().join(STORE_FILE);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = refusal(&rig);
    assert!(
        matches!(error, StoreError::Newer { found: 99, known, .. } if known == MIGRATIONS.len()),
        "{error}"
    );
    Connection::open(&path).unwrap().pragma_update(None, "application_id", 5).unwrap();
    assert!(matches!(refusal(&rig), StoreError::Foreign(_)));
    fs::remove_file(path.with_extension("db-wal")).ok();
    fs::write(&path, b"no database, but long enough to be looked at: ".repeat(30)).unwrap();
    let error = refusal(&rig);
    assert!(matches!(error, StoreError::Foreign(_)), "{error}");
}

#[test]
fn acknowledged_change_is_durable_and_failed_one_absent() {
    let rig = Rig::new().without_replica();
    let service = rig.open();
    let setting = |name: &str| {
        service
            .read(|store| Ok(store.pragma_query_value(None, name, |row| row.get::<_, String>(0))?))
            .unwrap()
    };
    assert_eq!(setting("journal_mode"), "wal");
    assert_eq!(setting("locking_mode"), "exclusive");
    let number = |name: &str| {
        service.read(|store| Ok(store.pragma_query_value(None, name, |row| row.get::<_, i64>(0))?)).unwrap()
    };
    assert_eq!((number("synchronous"), number("foreign_keys")), (2, 1));
    let failed: crate::Result<()> = service.change(|store| {
        store.execute("INSERT INTO token VALUES ('a', 'read', x'00', 1, NULL)", [])?;
        Err(Error::invalid("this", "that"))
    });
    assert!(failed.is_err() && service.tokens().unwrap().is_empty());
}

/// A disk that is full has no room for what a start would write.
#[test]
fn a_start_that_changes_nothing_writes_nothing() {
    let rig = Rig::new().without_replica();
    drop(furnished(&rig));
    let path = rig.dir.path().join(STORE_FILE);
    let before = fs::read(&path).unwrap();
    let service = rig.open();
    let log = fs::metadata(path.with_extension("db-wal")).unwrap();
    assert_eq!(log.len(), 0, "nothing is in the log");
    service.create_pool(&context(), &new_pool("q", Level::Unlimited, 1)).unwrap();
    assert!(fs::metadata(path.with_extension("db-wal")).unwrap().len() > 0, "it is where changes are");
    drop(service);
    assert!(fs::read(&path).unwrap() != before);
    let before = fs::read(&path).unwrap();
    drop(rig.open());
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn operations_are_forgotten_in_time_but_not_while_they_run() {
    let rig = Rig::new();
    let service = rig.open();
    let insert = |id: u64, name: &str, outcome: &str| {
        format!(
            "INSERT INTO operation (id, actor, verb, kind, name, detail, started_ms, ended_ms, outcome, reason) VALUES ({id}, 'ada', 'create', 'pool', '{name}', '', 1, NULL, '{outcome}', '');"
        )
    };
    let rows =
        [insert(1, "a", "running"), insert(2, "b", "succeeded"), insert(OPERATIONS_KEPT, "c", "running")];
    let rows = rows.join("") + &insert(OPERATIONS_KEPT + 2, "d", "succeeded");
    service.change(|store| Ok(store.execute_batch(&rows)?)).unwrap();
    service.create_pool(&context(), &new_pool("c", Level::Unlimited, 1)).unwrap();
    let operations = service.operations(None, 9).unwrap().items;
    let left: Vec<_> = operations.iter().map(|one| (one.name.as_str(), &one.outcome)).collect();
    let given_up = Outcome::Failed("given up".to_owned());
    let expected =
        [("c", &Outcome::Succeeded), ("d", &Outcome::Succeeded), ("c", &given_up), ("a", &Outcome::Running)];
    assert_eq!(left, expected);
}
