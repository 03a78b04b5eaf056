//! Arguments of `plimsoll size` for one workload.

/// 1,200 operations of 8 KiB a second, scaled down from what such volumes do.
const ASKED: [&str; 16] = [
    "--capacity",
    "100GiB",
    "--iops",
    "1200",
    "--block",
    "8k",
    "--read",
    "70",
    "--clients",
    "2",
    "--latency",
    "20ms",
    "--level",
    "anf/premium",
    "--working-set",
    "32MiB",
];

pub fn asked<'a>(verb: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["size"], verb, &ASKED[..], more].concat()
}
