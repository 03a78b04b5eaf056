"""Checks that every object of the locked backup is retained, and that no version of one can be deleted."""

import sys

import boto3
from botocore.exceptions import ClientError

endpoint, bucket = sys.argv[1:]
s3 = boto3.client(
    "s3",
    endpoint_url=endpoint,
    region_name="us-east-1",
    aws_access_key_id="key",
    aws_secret_access_key="secret",
)
found = 0
for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix="locked/"):
    for version in page.get("Versions", []):
        name = version["Key"]
        # The header, the owner and the session are no part of the backup.
        if not any(part in name for part in ("/packs/", "/backups/")):
            continue
        # moto answers GetObjectRetention with an error of its own.
        head = s3.head_object(Bucket=bucket, Key=name)
        assert head["ObjectLockMode"] == "COMPLIANCE", (name, head)
        assert head["ObjectLockRetainUntilDate"].year == 2099, (name, head)
        try:
            s3.delete_object(Bucket=bucket, Key=name, VersionId=version["VersionId"])
        except ClientError as refusal:
            assert refusal.response["Error"]["Code"] == "AccessDenied", (name, refusal)
        else:
            raise AssertionError(f"{name} was deleted")
        found += 1
assert found >= 4, found
print(f"{found} objects are locked")
