//! Figures of `plimsoll size`, read back as a person would type them.

use crate::rig::plimsoll;
use envelope::{Bytes, BytesPerSecond, Iops, Level, Limits, Owner, Pool, ProvisionedIops, Qos, Volume};

/// Loads of sequential reads that are nothing round: capacity, throughput.
const ASKED: [(&str, &str); 4] = [
    ("1234567MiB", "20000001kB/s"),
    ("3001GiB", "27650kB/s"),
    ("10239GiB", "314159KiB/s"),
    ("70001GiB", "999999999kB/s"),
];
const LEVELS: [&str; 11] = [
    "anf/standard",
    "anf/premium",
    "anf/ultra",
    "anf/flexible",
    "gcnv/standard",
    "gcnv/extreme",
    "gcnv/flex",
    "gcnv/flex-custom",
    "gcnv/flex-unified",
    "filestore/zonal",
    "filestore/enterprise",
];
/// The headroom that is added to a load.
const HEADROOM: u64 = 30;
const CAPACITY_HEADROOM: u64 = 20;

/// An option as its lines say.
struct Printed {
    pools: u64,
    pool: Pool,
    per_pool: u64,
    volume: Volume,
    carries: BytesPerSecond,
    peak_tenths: u64,
}

/// The text of a fact.
fn fact<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// `3 × a pool of 2 TiB` or one of them.
fn counted(text: &str) -> (u64, Bytes) {
    let (count, each) = text.split_once(" × ").unwrap_or(("1", text));
    let size = each.split_once(" of ").unwrap().1;
    (count.parse().unwrap(), size.parse().unwrap())
}

fn printed(text: &str) -> Printed {
    let option = text.lines().find_map(|line| line.strip_prefix("Option 1: ")).unwrap();
    let mut parts = option.split(", ");
    let level: Level = parts.next().unwrap().parse().unwrap();
    let (pools, size) = counted(parts.next().unwrap());
    let mut pool = Pool::new(level, size);
    let (per_pool, volume_size) = match parts.next() {
        Some(volumes) => counted(volumes.strip_prefix("in it ").unwrap()),
        None => (1, size),
    };
    let mut volume = Volume::new(volume_size);
    volume.settings.large = option.contains("large volume");
    for part in fact(text, "Set").unwrap_or_default().split("; ").filter(|part| !part.is_empty()) {
        let (owner, settings) = part.split_once(' ').unwrap();
        for setting in settings.split(", ") {
            if setting == "manual QoS" {
                pool.settings.qos = Some(Qos::Manual);
            } else if let Ok(iops) = setting.parse::<Iops>() {
                pool.settings.iops = Some(ProvisionedIops::Fixed(iops));
            } else if owner == "volume" {
                volume.settings.throughput = Some(setting.parse().unwrap());
            } else {
                pool.settings.throughput = Some(setting.parse().unwrap());
            }
        }
    }
    let carries = fact(text, "Carries").unwrap().split(" of this mix").next().unwrap().replace(',', "");
    let peak = fact(text, "Used").unwrap().split(" %").next().unwrap().replace(['.', ','], "");
    let (carries, peak_tenths) = (carries.parse().unwrap(), peak.parse().unwrap());
    Printed { pools, pool, per_pool, volume, carries, peak_tenths }
}

/// The data that may be read of all that is bought.
fn readable(printed: &Printed) -> u64 {
    let least = |limits: &Limits| {
        let (rate, iops) = (&limits.total, limits.total.read_iops.or(limits.total.combined_iops));
        let iops_rate = iops.map(|iops| iops.0 << 16);
        [rate.read.map(|rate| rate.0), rate.combined.map(|rate| rate.0), iops_rate]
            .into_iter()
            .flatten()
            .min()
    };
    let pool = printed.pool.limits().unwrap();
    let volume = printed.pool.volume_limits(&printed.volume).unwrap();
    if pool.owner == Owner::Pool {
        return least(&pool).unwrap() * printed.pools;
    }
    least(&volume).unwrap() * printed.pools * printed.per_pool
}

#[test]
fn printed_figures_can_be_bought_and_carry_the_load() {
    let mut found = 0;
    for (capacity, throughput) in ASKED {
        for level in LEVELS {
            let flags = ["size", "--capacity", capacity, "--throughput", throughput, "--level", level];
            let output = plimsoll(None).args(flags).output().unwrap();
            if !output.status.success() {
                continue;
            }
            let text = String::from_utf8(output.stdout).unwrap();
            let printed = printed(&text);
            let (wanted, load): (Bytes, BytesPerSecond) =
                (capacity.parse().unwrap(), throughput.parse().unwrap());
            let volumes = vec![printed.volume.clone(); usize::try_from(printed.per_pool).unwrap()];
            assert_eq!(printed.pool.check_volumes(&volumes), Ok(()), "{text}");
            let room = printed.volume.size.0 * printed.pools * printed.per_pool;
            assert!(room >= wanted.0 / 100 * (100 + CAPACITY_HEADROOM), "{text}");
            let limit = readable(&printed);
            let needed = (load.0 * (100 + HEADROOM)).div_ceil(100);
            assert!(limit >= needed, "{limit} of {needed}: {text}");
            assert!(printed.carries.0 <= limit, "{} of {limit}: {text}", printed.carries);
            assert!(
                printed.carries.0 + (1 << 20) / 10 + 1 >= needed,
                "{} of {needed}: {text}",
                printed.carries
            );
            // The share at the peak is never below what the load takes of what is set.
            let share = u128::from(printed.peak_tenths) * u128::from(limit);
            assert!(share >= u128::from(load.0) * 1000, "{limit}: {text}");
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn an_option_that_sets_little_carries_little() {
    let flags =
        ["--capacity", "1TiB", "--throughput", "20MiB/s", "--block", "64k", "--level", "anf/flexible"];
    let output = plimsoll(None).arg("size").args(flags).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Set:            pool manual QoS, 128 MiB/s; volume 26 MiB/s\n"), "{text}");
    assert!(text.contains("Carries:        26 MiB/s of this mix, 416 IOPS\n"), "{text}");
    assert!(text.contains("Used:           77.0 % at the peak, without headroom\n"), "{text}");
    assert!(text.contains("26.0 MiB/s   77.0 %"), "{text}");
    let output = plimsoll(None).arg("size").args(flags).arg("--json").output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let option = &json["options"][0];
    assert_eq!(option["carries_bytes_per_second"], 26 << 20, "{option}");
    assert_eq!(option["next"]["kind"], "setting", "{option}");
}
