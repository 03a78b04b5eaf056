//! The scenario that measures the same as jobs of fio.

use report::scenario::{Cache, Depth, Pattern, Scenario, Series, Stability, Work};
use report::units::show_size;

use super::job::{Job, Sync, Transfer};
use super::jobs::Jobs;

/// Bytes of each process where fio uses the existing size.
const SIZE: u64 = 1 << 30;

/// The scenario has one series for each job. Also returns the differences from fio.
pub fn scenario(jobs: &Jobs) -> (Scenario, Vec<String>) {
    let mut differences = Vec::new();
    if jobs.together().any(|set| set.len() > 1) {
        differences.push("fio runs jobs at the same time; here each is a series of its own".to_owned());
    }
    for job in &jobs.jobs {
        let of_job = differences_of(job);
        let named = of_job
            .into_iter()
            .map(|text| if jobs.jobs.len() > 1 { format!("{}: {text}", job.name) } else { text });
        for text in named {
            differences.push(text);
        }
    }
    let names: Vec<&str> = jobs.jobs.iter().map(|job| job.name.as_str()).collect();
    let scenario = Scenario {
        name: format!("fio-{}", plain(names.first().unwrap_or(&"jobs"))),
        title: format!("The fio jobs {}", names.join(", ")),
        about: format!("In place of fio's jobs. What differs: {}.", differences.join("; ")),
        page: None,
        series: jobs.jobs.iter().map(series).collect(),
        pairs: Vec::new(),
    };
    (scenario, differences)
}

fn series(job: &Job) -> Series {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Series {
        name: job.name.clone(),
        work: Work::Transfers,
        blocks: vec![job.block()],
        pattern: match (job.is_random, job.norandommap) {
            (false, _) => Pattern::Sequential,
            (true, true) => Pattern::Random,
            (true, false) => Pattern::Shuffled,
        },
        reads: vec![job.read_percent],
        jobs: count(job.numjobs),
        depths: Depth::Fixed(vec![count(job.depth().unwrap_or(job.iodepth))]),
        stability: match job.sync {
            Sync::None => Stability::Unstable,
            Sync::Sync => Stability::FileSync,
            Sync::Dsync => Stability::DataSync,
        },
        cache: Cache::Any,
        working_set: job.size.unwrap_or(SIZE).saturating_mul(job.numjobs),
        ..Series::default()
    }
}

fn differences_of(job: &Job) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |applies: bool, text: &dyn Fn() -> String| {
        if applies {
            all.push(text());
        }
    };
    add(!job.direct, &|| "fio goes through the client's page cache; here there is none".to_owned());
    add(!(job.time_based && job.runtime_s.is_some()), &|| {
        "fio ends when its size is done; here a window of fixed length is measured after a warm-up".to_owned()
    });
    add(job.size.is_none(), &|| format!("fio uses the files as they are; here each has {}", show_size(SIZE)));
    add(job.transfers == Transfer::Both && job.read_block != job.write_block, &|| {
        format!(
            "fio writes blocks of {}; here reads and writes have {}",
            show_size(job.write_block),
            show_size(job.read_block)
        )
    });
    add(job.filename.is_some() && job.numjobs > 1, &|| {
        "fio's processes share one file; here each has its own".to_owned()
    });
    add(job.nrfiles > 1, &|| format!("fio uses {} files a process; here one", job.nrfiles));
    add(job.loops > 1, &|| format!("fio makes {} passes; here the window counts", job.loops));
    add(job.writes() && (job.fsync > 0 || job.fdatasync > 0), &|| {
        "fio flushes after every few writes; here at the end, unless each write is stable".to_owned()
    });
    add(job.writes() && job.sync == Sync::None && job.direct, &|| {
        "Linux makes each direct write over NFS stable; here writes are UNSTABLE with a COMMIT at the end"
            .to_owned()
    });
    add(job.rate.is_some() || job.rate_iops.is_some() || job.thinktime.is_some(), &|| {
        "fio limits its rate; here there is no limit".to_owned()
    });
    add(job.is_random && job.randseed.is_none() && job.randrepeat.unwrap_or(true), &|| {
        "fio uses the same places in each run; here they depend on the seed".to_owned()
    });
    add(job.depth().is_none(), &|| {
        format!("ioengine={} is not known here; iodepth is taken as it is", job.ioengine)
    });
    let unknown = job.unknown.iter().map(|option| format!("{option} is left out"));
    all.into_iter().chain(unknown).collect()
}

fn plain(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_has_fio_s_numbers_and_reads_back() {
        let jobs = Jobs::from_command(
            "fio --name=8K reads --rw=randrw --rwmixread=75 --direct=1 --ioengine=libaio --bs=8k --numjobs=4 --iodepth=128 \
             --size=4G --runtime=600 --time_based --group_reporting --randseed=1"
                .replace("8K reads", "8Kreads")
                .as_str(),
        )
        .unwrap();
        let (scenario, differences) = scenario(&jobs);
        let [series] = scenario.series.as_slice() else { panic!("{scenario:?}") };
        assert_eq!(
            (series.blocks.as_slice(), series.reads.as_slice(), series.jobs),
            ([8192].as_slice(), [75].as_slice(), 4)
        );
        assert_eq!((series.pattern, &series.depths), (Pattern::Shuffled, &Depth::Fixed(vec![128])));
        assert_eq!((series.working_set, series.stability), (16 << 30, Stability::Unstable));
        assert_eq!(differences.len(), 1, "{differences:?}");
        let text = toml::to_string(&scenario).unwrap();
        assert_eq!(text.parse::<Scenario>().unwrap(), scenario);
        assert_eq!(scenario.name, "fio-8kreads");
    }

    #[test]
    fn difference_is_described() {
        let jobs = Jobs::from_file(
            "[a]\nrw=rw\nbs=4k,8k\nfilename=f\nnumjobs=2\nloops=3\nfsync=4\nrate=1m\nodd=1\n[b]\nrw=write\nsync=1\n",
        )
        .unwrap();
        let (scenario, differences) = scenario(&jobs);
        for part in [
            "same time",
            "a: fio goes through",
            "blocks of 8 KiB",
            "share one file",
            "3 passes",
            "every few",
            "odd=1",
        ] {
            assert!(differences.iter().any(|text| text.contains(part)), "{part}: {differences:?}");
        }
        assert_eq!(scenario.series[1].stability, Stability::FileSync);
        assert_eq!(scenario.series[1].depths, Depth::Fixed(vec![1]));
    }
}
