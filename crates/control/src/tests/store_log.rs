//! The log of the store: it describes the store exactly, and a failure of it at any step loses no acknowledged change.

use super::crash::{CHANGES, prepared, served};
use super::rig::{Rig, context, furnished, new_pool};
use crate::store::{MIGRATIONS, Store, StoreLog, image};
use crate::{Error, STORE_FILE, StoreError};
use envelope::Level;
use rusqlite::Connection;
use rusqlite::types::Value;
use stable::{Failure, MemoryReplica, ReplicaPairs};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

/// The counters of commits in the file (sqlite.org/fileformat.html, 1.3), which a commit writes after its change is logged.
const COUNTERS: [std::ops::Range<usize>; 2] = [24..28, 92..100];

type Row = Vec<Value>;
type Tables = BTreeMap<String, Vec<Row>>;

fn rows(store: &Connection, query: &str) -> Vec<Row> {
    let mut select = store.prepare(query).unwrap();
    let columns = select.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
    select.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// All rows of all tables, in the order of their keys, and the schema.
fn tables(store: &Connection) -> Tables {
    let schema = rows(store, "SELECT name, type, sql FROM sqlite_schema ORDER BY name");
    let mut tables = Tables::new();
    for row in &schema {
        if let (Value::Text(name), Value::Text(kind)) = (&row[0], &row[1])
            && kind == "table"
        {
            tables.insert(name.clone(), rows(store, &format!("SELECT * FROM \"{name}\"")));
        }
    }
    tables.insert("sqlite_schema".to_owned(), schema);
    for pragma in ["application_id", "user_version"] {
        tables.insert(pragma.to_owned(), rows(store, &format!("PRAGMA {pragma}")));
    }
    tables
}

fn logged(pairs: &ReplicaPairs) -> Tables {
    tables(&image::open(&StoreLog::image(pairs)).unwrap())
}

/// Without the identifier of the machine, which is random.
fn without_machine(mut tables: Tables) -> Tables {
    tables.remove("machine").unwrap();
    tables
}

/// The difference between the store and its log, after a commit.
pub(super) fn difference(store: &mut Connection, pairs: &ReplicaPairs) -> Option<String> {
    let plain = |mut image: Vec<u8>| {
        COUNTERS.into_iter().for_each(|range| image[range].fill(0));
        image
    };
    if plain(image::of(store).unwrap()) == plain(StoreLog::image(pairs)) {
        return None;
    }
    let (here, there) = (tables(store), logged(pairs));
    (here != there).then(|| format!("{here:#?}\n is logged as \n{there:#?}"))
}

/// A store of one directory and one replica.
struct Logged {
    dir: tempfile::TempDir,
    replica: Arc<MemoryReplica>,
}

impl Logged {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), replica: Arc::default() }
    }

    /// A start on another machine.
    fn open(&self) -> crate::Result<Store> {
        self.replica.set_pairs(self.replica.pairs());
        let elsewhere = self.dir.path();
        _ = fs::remove_file(elsewhere.join(STORE_FILE));
        Store::open(elsewhere, Some(self.log()))
    }

    fn log(&self) -> StoreLog {
        StoreLog::restore(self.dir.path(), &self.replica.pairs(), Arc::clone(&self.replica) as _).unwrap()
    }

    fn bases(&self) -> Vec<String> {
        let pairs = self.replica.pairs();
        pairs.keys().filter(|key| key.starts_with("store/base/")).cloned().collect()
    }

    fn changes(&self) -> usize {
        self.replica.pairs().keys().filter(|key| key.starts_with("store/change/")).count()
    }
}

fn add(store: &mut Store, name: &str, bytes: usize) -> crate::Result<()> {
    let insert = "INSERT INTO operation (id, actor, verb, kind, name, detail, started_ms, outcome, reason)
        VALUES (NULL, 'ada', 'create', 'pool', ?1, hex(randomblob(?2)), 1, 'running', '')";
    store.change(|store| Ok(store.execute(insert, rusqlite::params![name, bytes / 2]).map(drop)?))
}

fn names(store: &Store) -> Vec<String> {
    let mut select = store.read().prepare("SELECT name FROM operation ORDER BY id").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn every_table_is_in_the_log_with_its_rows() {
    let rig = Rig::new();
    let service = furnished(&rig);
    service
        .change(|store| {
            store.execute_batch(
                "INSERT INTO vault_owner VALUES (x'01');
                 UPDATE lock_clock SET now_ms = 77;
                 INSERT INTO pool_label SELECT id, 'a', 'b' FROM pool;
                 UPDATE pool_label SET key = 'c';
                 INSERT INTO snapshot SELECT id, 1, 's', 'manual', '', 'ready', '', NULL, 1, 2, 3, 4 FROM volume;
                 UPDATE snapshot SET view = 5, locked_until_ms = -1;
                 INSERT INTO user VALUES (1, 'ada', 1000, 1000, NULL, 1, 2, 3);
                 INSERT INTO user_group VALUES (2, 'staff', 1000, 1, 2, 3);
                 INSERT INTO member VALUES (2, 1);
                 INSERT INTO windows_name VALUES (1, 1, 'EXAMPLE\\ada');",
            )?;
            Ok(())
        })
        .unwrap();
    let replica = rig.replica.clone().unwrap();
    let here = service.read(|store| Ok(tables(store))).unwrap();
    assert_eq!(here, logged(&replica.pairs()));
    assert!(here["machine"].len() == 1 && here["lock_clock"] == [vec![Value::Integer(77)]]);
    // Rows of other tables go with these.
    let gone = "DELETE FROM user; DELETE FROM volume; DELETE FROM pool; DELETE FROM vault_owner;";
    service.change(|store| Ok(store.execute_batch(gone)?)).unwrap();
    let here = service.read(|store| Ok(tables(store))).unwrap();
    assert_eq!(here, logged(&replica.pairs()));
    assert!(here["member"].is_empty() && here["snapshot"].is_empty() && here["pool_label"].is_empty());
}

#[test]
fn failed_log_at_any_step_keeps_what_was_acknowledged() {
    for (name, change) in CHANGES {
        let rig = Rig::new();
        let service = prepared(&rig);
        let replica = rig.replica.clone().unwrap();
        let (first, mut before) = (replica.steps(), without_machine(logged(&replica.pairs())));
        let mut ends = vec![served(&service)];
        change(&service).unwrap();
        let steps = replica.steps() - first;
        ends.push(served(&service));
        assert!(steps >= 2, "{name}: two transactions");
        for step in 1..=steps {
            for failure in [Failure::Lost, Failure::Applied] {
                let rig = Rig::new();
                let service = prepared(&rig);
                let replica = rig.replica.clone().unwrap();
                replica.fail_at(step, failure);
                let error = change(&service).unwrap_err();
                assert!(matches!(error, Error::Store(StoreError::Log(_))), "{name}, step {step}: {error}");
                let again = service.create_pool(&context(), &new_pool("x", Level::Unlimited, 1)).unwrap_err();
                assert!(matches!(again, Error::Store(StoreError::Uncertain)), "{name}, step {step}: {again}");
                drop(service);
                let found = without_machine(logged(&replica.pairs()));
                assert_eq!(found == before, failure == Failure::Lost, "{name}, step {step}");
                if failure == Failure::Applied {
                    before = found;
                }
                replica.set_pairs(replica.pairs());
                let service = rig.open();
                rig.check_agreement(&service);
                assert!(ends.contains(&served(&service)), "{name}, step {step}");
                change(&service).unwrap();
                assert_eq!(served(&service), ends[1], "{name}, step {step}: repeated");
                rig.check_agreement(&service);
            }
        }
    }
}

#[test]
fn failed_base_at_any_step_keeps_what_was_acknowledged() {
    let large = 700_000;
    let prepared = || {
        let logged = Logged::new();
        let mut store = logged.open().unwrap();
        add(&mut store, "a", large).unwrap();
        assert_eq!(logged.changes(), 1);
        (logged, store)
    };
    let (logged, mut store) = prepared();
    let (old, first) = (logged.bases(), logged.replica.steps());
    add(&mut store, "b", large).unwrap();
    let steps = logged.replica.steps() - first;
    assert!(steps > 2 && logged.changes() == 0, "{steps} steps for a base in parts");
    assert!(old.iter().all(|key| !logged.bases().contains(key)), "nothing is left of the old base");
    let sizes = logged.replica.pairs().into_values().map(|value| value.len());
    assert!(sizes.max() <= Some(64 << 10));
    for step in 1..=steps {
        for failure in [Failure::Lost, Failure::Applied] {
            let (logged, mut store) = prepared();
            logged.replica.fail_at(step, failure);
            assert!(add(&mut store, "b", large).is_err());
            drop(store);
            let mut store = logged.open().unwrap();
            let is_done = (step, failure) == (steps, Failure::Applied);
            let expected: &[&str] = if is_done { &["a", "b"] } else { &["a"] };
            assert_eq!(names(&store), expected, "step {step}");
            add(&mut store, "c", large).unwrap();
            add(&mut store, "d", large).unwrap();
            assert_eq!(logged.bases().iter().filter(|key| key.ends_with("/00000000")).count(), 1);
            drop(store);
            assert_eq!(names(&logged.open().unwrap()), [expected, &["c", "d"]].concat(), "step {step}");
        }
    }
}

#[test]
fn failed_start_at_any_step_is_repeated() {
    let logged = Logged::new();
    drop(logged.open().unwrap());
    let steps = logged.replica.steps();
    for step in 1..=steps {
        for failure in [Failure::Lost, Failure::Applied] {
            let logged = Logged::new();
            logged.replica.fail_at(step, failure);
            assert!(Store::open(logged.dir.path(), Some(logged.log())).is_err());
            let mut store = logged.open().unwrap();
            add(&mut store, "a", 10).unwrap();
            drop(store);
            assert_eq!(names(&logged.open().unwrap()), ["a"]);
        }
    }
}

#[test]
fn many_small_changes_make_a_base_now_and_then() {
    let logged = Logged::new();
    let mut store = logged.open().unwrap();
    let first = logged.bases();
    (0..256).for_each(|number| add(&mut store, &number.to_string(), 10).unwrap());
    assert_eq!((logged.changes(), logged.bases()), (256, first.clone()));
    let pairs = logged.replica.pairs();
    let sizes = pairs.range("store/change/".to_owned()..).map(|(_, change)| change.len());
    assert!(sizes.sum::<usize>() < 256 * 1024, "a change has its bytes, not its pages");
    // A transaction without a change needs no step.
    let steps = logged.replica.steps();
    store.change(|_| Ok(())).unwrap();
    assert_eq!(logged.replica.steps(), steps);
    add(&mut store, "last", 10).unwrap();
    assert!(logged.changes() == 0 && logged.bases() != first);
    add(&mut store, "after", 10).unwrap();
    drop(store);
    assert_eq!((logged.changes(), names(&logged.open().unwrap()).len()), (1, 258));
}

#[test]
fn older_store_in_the_log_is_brought_up_to_date_with_a_new_base() {
    let logged = Logged::new();
    let path = logged.dir.path().join(STORE_FILE);
    let mut old = Connection::open(&path).unwrap();
    let (last, steps) = MIGRATIONS.split_last().unwrap();
    old.execute_batch(&steps.concat()).unwrap();
    let mark = format!("PRAGMA application_id = 1349282157; PRAGMA user_version = {};", steps.len());
    old.execute_batch(&(mark + "PRAGMA journal_mode = WAL; UPDATE lock_clock SET now_ms = 5;")).unwrap();
    logged.log().start(&mut old).unwrap();
    drop(old);
    let (bases, before) = (logged.bases(), logged.replica.pairs());
    assert!(!last.is_empty() && bases.iter().all(|key| key.starts_with("store/base/0000000000000001/")));
    let store = logged.open().unwrap();
    assert_eq!(crate::store::lock_clock::read(store.read()).unwrap(), 5);
    assert!(logged.bases().iter().all(|key| key.starts_with("store/base/0000000000000002/")));
    drop(store);
    // Another start changes nothing.
    let pairs = logged.replica.pairs();
    drop(logged.open().unwrap());
    assert!(logged.replica.pairs() == pairs && pairs != before);
}

#[test]
fn damaged_log_is_refused() {
    let logged = Logged::new();
    let mut store = logged.open().unwrap();
    ["a", "b", "c"].into_iter().for_each(|name| add(&mut store, name, 10).unwrap());
    drop(store);
    let whole = logged.replica.pairs();
    let refused = |pairs: &ReplicaPairs| {
        let restored = StoreLog::restore(logged.dir.path(), pairs, Arc::clone(&logged.replica) as _);
        assert!(matches!(restored.err(), Some(Error::Store(StoreError::LogDamaged(_)))));
    };
    for key in whole.keys().filter(|key| !key.ends_with("0000000000000003")) {
        let mut pairs = whole.clone();
        pairs.remove(key);
        refused(&pairs);
    }
    for key in whole.keys() {
        for place in [0, whole[key].len() / 2, whole[key].len() - 1] {
            let mut pairs = whole.clone();
            pairs.get_mut(key).unwrap()[place] ^= 1;
            refused(&pairs);
        }
    }
}
