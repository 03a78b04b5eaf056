//! A job as a base for tests.

use bench::engine::Job;
use report::scenario::{Cache, Pattern, Stability, Work};

/// Random reads of 8 KiB in one file of 1 MiB: one client, one connection, one call at a time.
pub fn job(work: Work) -> Job {
    Job {
        work,
        protocol: None,
        block: 8192,
        pattern: Pattern::Random,
        read_percent: 100,
        transfer: 8192,
        attribute_cache: false,
        stability: Stability::Unstable,
        cache: Cache::Any,
        same_places: None,
        metadata: None,
        gather: None,
        clients_total: 1,
        first_client: 0,
        clients: 1,
        connections: 1,
        jobs: 1,
        depth: 1,
        file_size: 1 << 20,
        rate: None,
        job_sets: 0,
        file_scale_thousandths: 1,
        repetition: 0,
        seed: 1,
    }
}
