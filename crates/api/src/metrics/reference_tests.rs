//! The reference page of the metrics, `docs/reference/metrics.md`.

use super::families::ALL;
use crate::page_tests::{check, row};
use std::fmt::Write;

const HEAD: &str = "\
# Metrics

`GET /metrics` returns all metrics in Prometheus' text format, version 0.0.4. The request needs a
token of any role, unless the configuration has `open_metrics = true` in its section `api`.
Prometheus reads the token from the file in `authorization.credentials_file`.

This page is generated from the declarations of the metrics.

No label names a client. The number of series depends on the pools, volumes and addresses of the
service.

## Families

";

const TAIL: &str = "
## Labels

| label | values |
|---|---|
| `volume` | name of the volume |
| `pool` | name of the pool |
| `direction` | `read`, `write` and `other` for operations; `read`, `write` and `all` for limits |
| `endpoint` | address of the service |
| `protocol` | `nfsv3`, `nfsv4.0`, `nfsv4.1` or `nfsv4.2` |
| `operation` | operation of an NFSv4 compound or procedure of NFSv3, such as `read`, `getattr` or `sequence` |
| `state` | `creating`, `ready`, `updating` or `deleting` |
| `version` | version of the service |
| `le` | upper end of a bucket in seconds; each is four times the previous one, from 0.000001 |

## Notes

- Counters start at 0 when the service starts.
- A limit that does not exist has no series.
- `plimsoll_nfs_calls_total` and `plimsoll_nfs_operations_total` count each call when it arrives.
  Repeated and refused calls count too. The figures are up to a second old.
- An NFSv4 compound counts as one call. Behind a WRITE of more than 192 KiB, the operations of its
  compound are not counted. A number that is not an operation counts as `illegal`.
- The families `plimsoll_nfs4_…` count each client under the newest version that it speaks.
- A READ counts as one from memory if memory has all its data when the service starts the call.
  Read-ahead of the kernel counts as memory. Otherwise the READ counts as one from storage. Refused
  READs count as neither.
- Both families of READs are absent if the file system does not support `RWF_NOWAIT`.
- A connection leaves `plimsoll_volume_connections` while all its calls wait longer than 10 seconds
  for a limit. It returns with the next reply. Closed connections never count.
- The families `plimsoll_smb_…` are absent if the service does not serve SMB.
- Each caught panic is a defect: report it with the log.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(&row(&["name", "type", "labels", "unit", "help"]));
    page.push_str("|---|---|---|---|---|\n");
    for family in ALL {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let name = format!("`{}`", family.name);
        page.push_str(&row(&[&name, family.kind, &labels.join(", "), family.unit, family.help]));
    }
    _ = write!(page, "{TAIL}");
    page
}

#[test]
fn metrics_reference_page_is_up_to_date() {
    check("metrics.md", &page());
}

#[test]
fn units_follow_names() {
    for family in ALL {
        let name = family.name.trim_end_matches("_total");
        for (ending, unit) in [("_bytes", "bytes"), ("_seconds", "seconds"), ("_per_second", " per second")] {
            if name.ends_with(ending) {
                assert!(family.unit.ends_with(unit), "{}: {}", family.name, family.unit);
            }
        }
        assert!(family.help.ends_with('.'), "{}", family.name);
    }
}
