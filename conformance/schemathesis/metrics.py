"""Reads the metrics with Prometheus' own parsers."""

import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

url, token = sys.argv[1:3]
request = urllib.request.Request(url + "/metrics", headers={"Authorization": "Bearer " + token})
with urllib.request.urlopen(request) as reply:
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4"), reply.headers
    text = reply.read().decode()
families = list(text_string_to_metric_families(text))
samples = [sample for family in families for sample in family.samples]
assert len({(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples}) == len(samples)
assert all(family.documentation and family.type != "unknown" for family in families), families
names = {family.name for family in families}
assert {"plimsoll_volume_operations", "plimsoll_volume_operation_seconds", "plimsoll_pool_capacity_bytes"} <= names
print(f"metrics: {len(families)} families, {len(samples)} samples")
