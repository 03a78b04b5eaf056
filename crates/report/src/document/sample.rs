//! Realistic runs from seeded randomness, for tests.

use crate::result::{
    Caveat, CaveatKind, Cell, ClientResult, Direction, Distribution, Durability, FORMAT, Limits, Machine,
    MachineUse, Measurement, Operation, Probe, Run, Second, ServerSide, Summary, TargetFacts, VolumeFacts,
};
use crate::scenario::{self, Depth, Point, Preset, Scenario, Search, Series};

pub struct Sample {
    pub seed: u64,
    pub noise: f64,
    /// Speed relative to other servers.
    pub factor: f64,
    pub repetitions: u32,
    pub seconds: u32,
}

impl Default for Sample {
    fn default() -> Self {
        Self { seed: 1, noise: 0.01, factor: 1.0, repetitions: 3, seconds: 10 }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// Standard normal quantiles from far below to far above, with the share of each. No usual percentile is at a boundary,
/// where rounding would decide.
const STEPS: [(f64, f64); 16] = [
    (-1.64, 0.05),
    (-1.28, 0.05),
    (-0.84, 0.1),
    (-0.52, 0.1),
    (-0.25, 0.1),
    (0.0, 0.12),
    (0.25, 0.1),
    (0.52, 0.1),
    (0.84, 0.1),
    (1.28, 0.1),
    (1.64, 0.05),
    (2.33, 0.023),
    (2.58, 0.0035),
    (3.09, 0.0028),
    (3.72, 0.00055),
    (4.26, 0.00015),
];

fn distribution(count: u64, mean_ms: f64) -> Distribution {
    let mut remaining = count;
    let mut steps = Vec::new();
    let mut sum = 0.0;
    for (z, share) in STEPS {
        let ns = (mean_ms * 1e6 * 0.84 * (0.6 * z).exp()).round();
        let here = whole(count as f64 * share).min(remaining);
        remaining -= here;
        if here > 0 {
            steps.push((whole(ns), here));
            sum += ns * here as f64;
        }
    }
    if let Some((_, last)) = steps.last_mut() {
        *last += remaining;
    }
    Distribution { steps, sum_ns: whole(sum) }
}

fn whole(value: f64) -> u64 {
    format!("{:.0}", value.max(0.0)).parse().unwrap()
}

/// Returns operations per second and the mean in milliseconds.
type Model = dyn Fn(&Series, &Point) -> (f64, f64);

impl Sample {
    pub fn run(&self, scenario: Scenario, model: &Model) -> Run {
        let mut random = Random(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut cells = Vec::new();
        for (index, series) in scenario.series.iter().enumerate() {
            for point in series.points() {
                cells.push(self.cell(&mut random, index, series, point, model));
            }
        }
        let machine = |index: usize| Machine {
            name: format!("10.0.0.{}:2070", index + 10),
            host: format!("load-{index}"),
            kernel: "6.1.0".to_owned(),
            cpus: 32,
            version: "0.1.0".to_owned(),
            clock_offset_us: 120.0 - 40.0 * index as f64,
            clock_bound_us: 60.0,
        };
        Run {
            format: FORMAT.to_owned(),
            version: "0.1.0".to_owned(),
            started: 1_790_000_000.0,
            finished: 1_790_003_600.0,
            ended_early: None,
            scenario,
            preset: Preset::Standard,
            seed: self.seed,
            target: target(),
            machines: (0..2).map(machine).collect(),
            file_sizes: Vec::new(),
            working_sets: Vec::new(),
            scaled: vec!["working set 6 TiB → 48 GiB: the volume has 60 GiB".to_owned()],
            cells,
            verdict: None,
            caveats: Vec::new(),
        }
    }

    fn cell(
        &self,
        random: &mut Random,
        index: usize,
        series: &Series,
        mut point: Point,
        model: &Model,
    ) -> Cell {
        let search = if series.depths == Depth::Search(Search::Search) {
            point.depth = 16;
            probes(series, &point, model, self.factor)
        } else {
            Vec::new()
        };
        let (rate, mean_ms) = model(series, &point);
        let measurements: Vec<Measurement> = (0..self.repetitions)
            .map(|_| {
                let factor = (1.0 + self.noise * random.normal()) * self.factor;
                self.measurement(random, series, &point, rate * factor, mean_ms / factor)
            })
            .collect();
        let summary = Summary::of(&measurements);
        Cell { series: index, point, search, measurements, summary, caveats: Vec::new() }
    }

    fn measurement(
        &self,
        random: &mut Random,
        series: &Series,
        point: &Point,
        rate: f64,
        mean_ms: f64,
    ) -> Measurement {
        let clients = self.clients(random, point, rate);
        let sum = |of: fn(&Second) -> u64| clients.iter().flat_map(|one| &one.seconds).map(of).sum::<u64>();
        let (reads, writes) = (sum(|one| one.reads), sum(|one| one.writes));
        let machine = MachineUse {
            cpu_s: 21.0,
            busiest_thread: 0.48,
            cpu_share: 0.21,
            late: 0,
            network_share: Some(0.37),
        };
        Measurement {
            started: 1_790_000_100.0,
            warm_up_s: 30.0,
            seconds: f64::from(self.seconds),
            steady: Some(true),
            operations: operations(series, point, reads, writes, mean_ms),
            wire: [
                ("READ".to_owned(), reads),
                ("WRITE".to_owned(), writes),
                ("COMMIT".to_owned(), writes / 256),
            ]
            .into(),
            clients,
            machines: vec![machine; 2],
            server: Some(self.server(point, reads, writes)),
            ..Measurement::default()
        }
    }

    fn clients(&self, random: &mut Random, point: &Point, rate: f64) -> Vec<ClientResult> {
        let share = f64::from(point.read_percent) / 100.0;
        let client = |client: usize| {
            let second = |_| {
                let ops = rate / point.clients as f64 * (1.0 + 0.01 * random.normal());
                let (reads, writes) = (whole(ops * share), whole(ops * (1.0 - share)));
                let (read_bytes, write_bytes) = (reads * point.block, writes * point.block);
                Second { reads, read_bytes, writes, write_bytes, others: 0 }
            };
            let seconds: Vec<Second> = (0..self.seconds).map(second).collect();
            let each = whole(rate * f64::from(self.seconds) / (point.clients * point.connections) as f64);
            let connections = vec![each; point.connections];
            ClientResult {
                name: format!("client-{client}"),
                machine: client % 2,
                endpoint: None,
                seconds,
                connections,
            }
        };
        (0..point.clients).map(client).collect()
    }

    fn server(&self, point: &Point, reads: u64, writes: u64) -> ServerSide {
        ServerSide {
            limits_before: None,
            seconds: f64::from(self.seconds),
            connections: u64::try_from(point.clients * point.connections).unwrap(),
            ops: reads + writes,
            read_bytes: reads * point.block,
            write_bytes: writes * point.block,
            throttled_ops: (reads + writes) / 20,
            throttle_s: (reads + writes) as f64 / 20.0 * 0.0004,
            cache_hit_ratio: (reads > 0).then_some(0.031),
            limits: target().volume.unwrap().limits,
        }
    }
}

/// Writes take 1.5 times as long as reads.
fn operations(series: &Series, point: &Point, reads: u64, writes: u64, mean_ms: f64) -> Vec<Operation> {
    let operation = |name: &str, direction, ops: u64, mean_ms: f64| Operation {
        name: name.to_owned(),
        direction,
        ops,
        bytes: ops * point.block,
        service: distribution(ops, mean_ms),
        response: series.work.eq(&scenario::Work::EdaBlend).then(|| distribution(ops, mean_ms * 1.6)),
    };
    vec![
        operation("read", Direction::Read, reads, mean_ms),
        operation("write", Direction::Write, writes, mean_ms * 1.5),
    ]
}

fn target() -> TargetFacts {
    TargetFacts {
        target: "nfs://10.0.0.4/v1".to_owned(),
        protocol: "NFSv3".to_owned(),
        generator: "built-in NFSv3 client".to_owned(),
        read_max: Some(1 << 20),
        write_max: Some(1 << 20),
        client_cache: "none: calls are made without a mount".to_owned(),
        volume: Some(VolumeFacts {
            version: "0.1.0".to_owned(),
            name: "v1".to_owned(),
            pool: "p1".to_owned(),
            level: "gcnv/extreme".to_owned(),
            shape: Some("gcnv-extreme-nfs3-64k-seq".to_owned()),
            shape_scale_thousandths: Some(1000),
            limits: Limits { bytes_per_s: Some(5_237 << 20), ..Limits::default() },
            durability: Some(Durability::Sync),
            ..VolumeFacts::default()
        }),
        ..TargetFacts::default()
    }
}

/// 1, 2, 4 … calls in flight of each job, on the way to 16.
fn probes(series: &Series, point: &Point, model: &Model, factor: f64) -> Vec<Probe> {
    let (peak, mean_ms) = model(series, point);
    [1usize, 2, 4, 8, 16, 32]
        .map(|depth| {
            let share = depth as f64 / (depth as f64 + 2.0);
            let rate = peak * factor * 1.1 * share;
            let latency = distribution(10_000, mean_ms * depth as f64 / 16.0 / share).latency();
            Probe {
                depth,
                ops_per_s: rate,
                mib_per_s: rate * point.block as f64 / f64::from(1 << 20),
                latency,
            }
        })
        .to_vec()
}

fn single_series(name: &str, series: Series) -> Scenario {
    Scenario {
        name: name.to_owned(),
        title: format!("Sample: {name}"),
        about: String::new(),
        page: None,
        series: vec![series],
        pairs: Vec::new(),
    }
}

/// Rates near those of page 000.
fn cloud_model(_: &Series, point: &Point) -> (f64, f64) {
    let share = f64::from(point.read_percent) / 100.0;
    let op_us = (1.8 + 5.2 * (1.0 - share)) + point.block as f64 / f64::from(1 << 20) * 190.0;
    (1e6 / op_us, (point.depth * 48) as f64 * op_us / 1e3)
}

pub fn gcnv() -> Run {
    let mut scenario = scenario::by_name("gcnv-scale-out").unwrap();
    scenario.keep(|series| !series.name.starts_with("Flex"));
    let mut run = Sample::default().run(scenario, &cloud_model);
    let doubt = Caveat::new(CaveatKind::NotSteady, "30 seconds differ by 27 % of their mean, at most 20 %");
    run.cells[6].caveats.push(doubt.clone());
    run.cells[7].caveats.push(doubt);
    let void = Caveat::new(CaveatKind::Void, "3 of 51200 reads were answered NFS3ERR_IO");
    run.cells[13].caveats.push(void);
    run.cells[13].measurements[0].errors.insert("read NFS3ERR_IO".to_owned(), 3);
    run.cells[13].measurements[0].error_details.push("offset 8192 of <client-0>/file-3".to_owned());
    run.caveats.push(Caveat::new(CaveatKind::CoLocated, "10.0.0.4 is an address of this host"));
    run.target.co_located = true;
    run
}

pub fn connections() -> Run {
    let series = Series {
        name: "8 KiB random, one client".to_owned(),
        reads: vec![100, 0],
        connections: vec![1, 2, 4, 8, 16],
        published: ["anf-large-scaleup-8k-rand", "anf-large-scaleup-gain"].map(str::to_owned).to_vec(),
        ..Series::default()
    };
    let model = |_: &Series, point: &Point| {
        let connections = point.connections as f64;
        let read = f64::from(point.read_percent) / 100.0;
        let rate = (50_000.0 + 12_000.0 * read) * 9.0 * connections / (connections + 8.0);
        (rate, (point.depth * 8) as f64 / rate * 1e3)
    };
    Sample::default().run(single_series("scale-up", series), &model)
}

pub fn depths() -> Run {
    let series = Series {
        name: "4 KiB random".to_owned(),
        blocks: vec![4096],
        depths: Depth::Fixed(vec![1, 2, 4, 8, 16, 32]),
        published: vec!["filestore-basic-ssd".to_owned()],
        ..Series::default()
    };
    let model = |_: &Series, point: &Point| {
        let in_flight = (point.depth * 8) as f64;
        let rate = 95_000.0 * in_flight / (in_flight + 24.0);
        (rate, in_flight / rate * 1e3)
    };
    Sample::default().run(single_series("depths", series), &model)
}

pub fn eda() -> Run {
    let series = Series {
        name: "EDA blend".to_owned(),
        work: scenario::Work::EdaBlend,
        blocks: vec![16 << 10],
        reads: vec![52],
        job_sets: (1..=10).map(|step| step * 9).collect(),
        depths: Depth::Fixed(vec![1]),
        published: ["anf-spec-eda-regular", "eda-anf-1760"].map(str::to_owned).to_vec(),
        ..Series::default()
    };
    let model = |_: &Series, point: &Point| {
        let rate = f64::from(point.job_sets.unwrap()) * 450.0;
        (rate, 0.3 / (1.0 - rate / 43_000.0))
    };
    Sample { noise: 0.002, ..Sample::default() }.run(single_series("eda", series), &model)
}
