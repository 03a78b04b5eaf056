//! The measured rows: one for each promise about speed.

const ENTRIES: usize = 10_000;

#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    load: &'static str,
    pub(super) relaxed: bool,
    /// A load that flushes is bound by the disk; a longer measurement adds nothing.
    pub(super) seconds_max: f64,
    /// The aim: at most this ratio to the floor's CPU time.
    pub(super) floor_max: f64,
    /// Counted by names instead of calls: servers fill their replies differently.
    pub(super) per_entry: bool,
    /// The changes over NFSv4.1, for rows with an aim there.
    pub(super) v41: Option<V41>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct V41 {
    /// Empty if the operations are those of NFSv3.
    pub(super) title: &'static str,
    /// `None` if the arguments are those of NFSv3.
    load: Option<&'static str>,
    /// The aim: at most this ratio to this server over NFSv3.
    pub(super) v3_max: f64,
    /// The aim: at most this ratio to NFS-Ganesha over NFSv4.1.
    pub(super) ganesha_max: Option<f64>,
}

const ROW: Row = Row {
    key: "",
    title: "",
    load: "",
    relaxed: false,
    seconds_max: f64::INFINITY,
    floor_max: 0.0,
    per_entry: false,
    v41: None,
};

const V41_ROW: V41 = V41 { title: "", load: None, v3_max: 0.0, ganesha_max: None };

/// At most this ratio to NFSv3.
const fn v41(v3_max: f64, row: Row) -> Row {
    Row { v41: Some(V41 { v3_max, ..V41_ROW }), ..row }
}

const fn row(key: &'static str, title: &'static str, load: &'static str, floor_max: f64) -> Row {
    Row { key, title, load, floor_max, ..ROW }
}

/// The names, which the directory rows share, are created fastest by a relaxed server.
const fn by_name(row: Row) -> Row {
    Row { relaxed: true, ..row }
}

/// The titles contain connections × calls in flight.
pub(super) const ROWS: [Row; 15] = [
    Row {
        v41: Some(V41 { v3_max: 1.05, ganesha_max: Some(1.0 / 6.0), ..V41_ROW }),
        ..row("read4k", "READ 4K random, 1 × 16", "read --block 4k", 1.05)
    },
    row("read8k", "READ 8K random, 1 × 16", "read --block 8k", 1.05),
    row("mix8k", "mix 50/50 8K random, 4 × 16", "mix --read 50 --block 8k --connections 4", 1.10),
    Row {
        v41: Some(V41 { title: "WRITE, GETATTR", v3_max: 1.15, ..V41_ROW }),
        ..row("write4k", "WRITE 4K unstable, 1 × 16", "write --block 4k", 0.95)
    },
    row("write8k", "WRITE 8K unstable, 1 × 16", "write --block 8k", 0.95),
    Row {
        seconds_max: 2.0,
        ..row("sync8k", "WRITE 8K FILE_SYNC, 1 × 16", "write --block 8k --stable file-sync", 0.27)
    },
    v41(
        1.03,
        row("read64k", "READ 64K sequential, 1 × 8", "read --block 64k --pattern sequential --depth 8", 0.80),
    ),
    row("write64k", "WRITE 64K sequential, 1 × 8", "write --block 64k --pattern sequential --depth 8", 1.05),
    v41(
        1.03,
        row("read1m", "READ 1M sequential, 1 × 4", "read --block 1m --pattern sequential --depth 4", 0.40),
    ),
    row("write1m", "WRITE 1M sequential, 1 × 4", "write --block 1m --pattern sequential --depth 4", 0.95),
    v41(1.15, row("getattr", "GETATTR, 1 × 16", "getattr", 1.10)),
    row("access", "ACCESS, 1 × 16", "access", 1.10),
    by_name(Row {
        v41: Some(V41 {
            title: "OPEN, CLOSE",
            load: Some("open --files 64 --size 64k"),
            v3_max: 2.0,
            ..V41_ROW
        }),
        ..row("lookup", "LOOKUP, 1 × 16", "lookup", 0.90)
    }),
    by_name(row("create", "CREATE + REMOVE relaxed, 1 × 16", "create", 1.20)),
    by_name(Row {
        per_entry: true,
        v41: Some(V41 { title: "READDIR", v3_max: 1.15, ..V41_ROW }),
        ..row("readdirplus", "READDIRPLUS, a name", "readdirplus", 0.40)
    }),
];

impl Row {
    pub(super) fn arguments(&self, speaks_v41: bool, seconds: f64, size: &str) -> Vec<String> {
        let load = self.v41.filter(|_| speaks_v41).and_then(|v41| v41.load).unwrap_or(self.load);
        arguments(load, seconds.min(self.seconds_max), size)
    }
}

/// The generator's arguments for a load; later arguments override the common ones.
pub(super) fn arguments(load: &str, seconds: f64, size: &str) -> Vec<String> {
    let mut arguments = vec!["--op".to_owned()];
    arguments.extend(load.split(' ').map(String::from));
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
    common("--time", format!("{}ms", (seconds * 1000.0).round()));
    common("--warm-up", "500ms".to_owned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_and_unique() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(row.floor_max > 0.0 && !row.title.is_empty(), "{row:?}");
            assert!(row.v41.is_none_or(|v41| v41.v3_max > 0.0), "{row:?}");
            assert!(ROWS[..index].iter().all(|other| other.key != row.key), "{row:?}");
        }
    }

    #[test]
    fn arguments_are_given_once() {
        let sync = ROWS.iter().find(|row| row.key == "sync8k").unwrap().arguments(false, 3.0, "1g").join(" ");
        assert_eq!(
            sync,
            "--op write --block 8k --stable file-sync --connections 1 --depth 16 --files 1 --size 1g --entries 10000 \
             --time 2000ms --warm-up 500ms"
        );
        let of = |key: &str, speaks_v41| {
            let row = ROWS.iter().find(|row| row.key == key).unwrap();
            row.arguments(speaks_v41, 3.0, "1g").join(" ")
        };
        assert!(of("lookup", false).starts_with("--op lookup --connections"));
        assert!(of("lookup", true).starts_with("--op open --files 64 --size 64k --connections"));
        assert_eq!(of("read4k", true), of("read4k", false));
        let mix = of("mix8k", true);
        assert_eq!(mix.matches("--connections").count(), 1);
        assert!(mix.contains("--connections 4 ") && mix.contains("--time 3000ms"));
    }
}
