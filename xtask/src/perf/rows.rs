//! What is measured: one row for each promise about speed.

/// Names in the large directory.
const ENTRIES: usize = 10_000;

/// A kind of load, and the aim for the server's CPU time per operation.
#[derive(Debug)]
pub(super) struct Row {
    /// For `--only`.
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    /// The generator's arguments.
    load: &'static str,
    /// The durability of a server of ours.
    pub(super) relaxed: bool,
    /// A load that flushes is bound by the disk; more of it says nothing.
    pub(super) seconds_max: f64,
    /// The aim: at most this many times the floor's CPU time.
    pub(super) floor_max: f64,
    /// Counted by names instead of calls: servers fill their replies differently.
    pub(super) per_entry: bool,
}

const ROW: Row = Row {
    key: "",
    title: "",
    load: "",
    relaxed: false,
    seconds_max: f64::INFINITY,
    floor_max: 0.0,
    per_entry: false,
};

const fn row(key: &'static str, title: &'static str, load: &'static str, floor_max: f64) -> Row {
    Row { key, title, load, floor_max, ..ROW }
}

/// The names, which the directory rows share, are quickest made by a relaxed server.
const fn names(row: Row) -> Row {
    Row { relaxed: true, ..row }
}

/// Connections × calls in flight in the titles.
pub(super) const ROWS: [Row; 15] = [
    row("read4k", "READ 4K random, 1 × 16", "read --block 4k", 1.05),
    row("read8k", "READ 8K random, 1 × 16", "read --block 8k", 1.05),
    row("mix8k", "mix 50/50 8K random, 4 × 16", "mix --read 50 --block 8k --connections 4", 1.10),
    row("write4k", "WRITE 4K unstable, 1 × 16", "write --block 4k", 0.95),
    row("write8k", "WRITE 8K unstable, 1 × 16", "write --block 8k", 0.95),
    Row {
        seconds_max: 2.0,
        ..row("sync8k", "WRITE 8K FILE_SYNC, 1 × 16", "write --block 8k --stable file-sync", 0.27)
    },
    row("read64k", "READ 64K sequential, 1 × 8", "read --block 64k --pattern sequential --depth 8", 0.80),
    row("write64k", "WRITE 64K sequential, 1 × 8", "write --block 64k --pattern sequential --depth 8", 1.05),
    row("read1m", "READ 1M sequential, 1 × 4", "read --block 1m --pattern sequential --depth 4", 0.40),
    row("write1m", "WRITE 1M sequential, 1 × 4", "write --block 1m --pattern sequential --depth 4", 0.95),
    row("getattr", "GETATTR, 1 × 16", "getattr", 1.10),
    row("access", "ACCESS, 1 × 16", "access", 1.10),
    names(row("lookup", "LOOKUP, 1 × 16", "lookup", 0.90)),
    names(row("create", "CREATE + REMOVE relaxed, 1 × 16", "create", 1.20)),
    names(Row { per_entry: true, ..row("readdirplus", "READDIRPLUS, a name", "readdirplus", 0.40) }),
];

impl Row {
    /// What the generator is told; later arguments win over the common ones.
    pub(super) fn arguments(&self, seconds: f64, size: &str) -> Vec<String> {
        let mut arguments = vec!["--op".to_owned()];
        arguments.extend(self.load.split(' ').map(String::from));
        let mut common = |name: &str, value: String| {
            if !arguments.iter().any(|argument| argument == name) {
                arguments.extend([name.to_owned(), value]);
            }
        };
        common("--connections", "1".to_owned());
        common("--depth", "16".to_owned());
        common("--files", "1".to_owned());
        common("--size", size.to_owned());
        common("--entries", ENTRIES.to_string());
        common("--time", format!("{}ms", (seconds.min(self.seconds_max) * 1000.0).round()));
        common("--warm-up", "500ms".to_owned());
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_and_told_apart() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(row.floor_max > 0.0 && !row.title.is_empty(), "{row:?}");
            assert!(ROWS[..index].iter().all(|other| other.key != row.key), "{row:?}");
        }
    }

    #[test]
    fn arguments_are_given_once() {
        let sync = ROWS.iter().find(|row| row.key == "sync8k").unwrap().arguments(3.0, "1g").join(" ");
        assert_eq!(
            sync,
            "--op write --block 8k --stable file-sync --connections 1 --depth 16 --files 1 --size 1g --entries 10000 \
             --time 2000ms --warm-up 500ms"
        );
        let mix = ROWS.iter().find(|row| row.key == "mix8k").unwrap().arguments(3.0, "1g").join(" ");
        assert_eq!(mix.matches("--connections").count(), 1);
        assert!(mix.contains("--connections 4 ") && mix.contains("--time 3000ms"));
    }
}
