//! `target/ci/summary.json`: the minutes of every step, by tier.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::scheduler::Report;
use super::timeline::Span;
use crate::part::Verdict;

/// Preserves the results of the other tiers.
pub(super) fn write(path: &Path, tier: &str, commit: &str, report: &Report) -> anyhow::Result<()> {
    let mut summary = read(path);
    summary[tier] = of(commit, report);
    fs::write(path, serde_json::to_vec_pretty(&summary)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn minutes_of(path: &Path, tier: &str) -> Option<f64> {
    read(path)[tier]["minutes"].as_f64()
}

fn read(path: &Path) -> Value {
    let found = fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    found.filter(Value::is_object).unwrap_or_else(|| json!({}))
}

fn of(commit: &str, report: &Report) -> Value {
    let flaky = report.flaky.iter();
    let flaky = flaky.map(|flaky| json!({ "name": flaky.name, "first_failure": flaky.first_failure }));
    json!({
        "commit": commit,
        "passed": report.failed() == 0,
        "minutes": minutes(report.length),
        "steps": report.spans.iter().map(step).collect::<Vec<_>>(),
        "flaky": flaky.collect::<Vec<_>>(),
    })
}

fn step(span: &Span) -> Value {
    let part = |part: &crate::part::Part| json!({ "name": part.name, "seconds": part.seconds, "passed": part.verdict == Verdict::Ok });
    json!({
        "name": span.name,
        "minutes": minutes(span.length),
        "outcome": span.outcome.to_string(),
        "parts": span.parts.iter().map(part).collect::<Vec<_>>(),
    })
}

pub(super) fn minutes(time: Duration) -> f64 {
    (time.as_secs_f64() / 0.6).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_have_two_decimals() {
        assert_eq!(minutes(Duration::from_millis(90_300)), 1.51);
        assert_eq!(minutes(Duration::from_secs(1200)), 20.0);
    }

    #[test]
    fn an_unreadable_summary_is_replaced() {
        let path = std::env::temp_dir().join(format!("xtask-summary-{}", std::process::id()));
        fs::write(&path, "[]").unwrap();
        assert_eq!(minutes_of(&path, "ci"), None);
        let report = Report { spans: Vec::new(), flaky: Vec::new(), length: Duration::from_secs(60) };
        write(&path, "ci", "abc", &report).unwrap();
        write(&path, "test", "abc", &report).unwrap();
        assert_eq!([minutes_of(&path, "ci"), minutes_of(&path, "test")], [Some(1.0); 2]);
        fs::remove_file(&path).unwrap();
    }
}
