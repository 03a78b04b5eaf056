//! Every family of metrics, declared once: the service and the reference page use these.

use crate::plane::RECENT_USE;

/// A family: its name, labels, unit and help.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) name: &'static str,
    /// The type in the text format.
    pub(crate) kind: &'static str,
    pub(crate) labels: &'static [&'static str],
    #[cfg_attr(not(test), expect(dead_code, reason = "only the reference page shows it"))]
    pub(crate) unit: &'static str,
    pub(crate) help: &'static str,
}

macro_rules! families {
    ($($constant:ident: $kind:ident $name:literal [$($label:ident)*] $unit:literal $help:literal;)*) => {
        $(pub(crate) const $constant: &Declaration = &Declaration {
            name: $name,
            kind: stringify!($kind),
            labels: &[$(stringify!($label)),*],
            unit: $unit,
            help: $help,
        };)*

        #[cfg(test)]
        pub(crate) const ALL: &[&Declaration] = &[$($constant),*];
    };
}

// The help of the families of connections names it.
const _: () = assert!(RECENT_USE.as_secs() == 10);

families! {
    VOLUME_OPERATIONS: counter "plimsoll_volume_operations_total" [volume direction] "operations"
        "Operations answered.";
    VOLUME_BYTES: counter "plimsoll_volume_bytes_total" [volume direction] "bytes"
        "Bytes of data read or written.";
    VOLUME_OPERATION_TIME: histogram "plimsoll_volume_operation_seconds" [volume direction] "seconds"
        "Time from the arrival of a call to the end of its reply.";
    VOLUME_READS_FROM_MEMORY: counter "plimsoll_volume_reads_from_memory_total" [volume] "operations"
        "READs served from memory, including read-ahead; no series if the file system cannot tell.";
    VOLUME_READS_FROM_STORAGE: counter "plimsoll_volume_reads_from_storage_total" [volume] "operations"
        "READs that waited for storage for at least a part of their data; no series if the file system cannot tell.";
    VOLUME_CONNECTIONS: gauge "plimsoll_volume_connections" [volume] "connections"
        "Connections that a volume answered in the last 10 seconds.";
    ENDPOINT_CONNECTIONS: gauge "plimsoll_endpoint_connections" [endpoint] "connections"
        "Client connections, by the service's address.";
    VOLUME_ENDPOINT_CONNECTIONS: gauge "plimsoll_volume_endpoint_connections" [volume endpoint] "connections"
        "Connections at an endpoint that its volume answered in the last 10 seconds.";
    VOLUME_ENDPOINT_UP: gauge "plimsoll_volume_endpoint_up" [volume endpoint] "0 or 1"
        "Whether the service listens at an endpoint of a volume.";
    VOLUME_THROTTLED: counter "plimsoll_volume_throttled_operations_total" [volume direction] "operations"
        "Operations delayed by a limit.";
    VOLUME_THROTTLE_TIME: counter "plimsoll_volume_throttle_seconds_total" [volume direction] "seconds"
        "Total delay of operations by a limit.";
    VOLUME_WAITING: gauge "plimsoll_volume_waiting_operations" [volume] "operations"
        "Operations now waiting for a limit.";
    VOLUME_LIMIT_BYTES: gauge "plimsoll_volume_limit_bytes_per_second" [volume direction] "bytes per second"
        "Limit of a volume; unlimited if missing.";
    VOLUME_LIMIT_OPERATIONS: gauge "plimsoll_volume_limit_operations_per_second" [volume direction]
        "operations per second" "Limit of a volume; unlimited if missing.";
    CLIENT_LIMIT_BYTES: gauge "plimsoll_volume_client_limit_bytes_per_second" [volume direction]
        "bytes per second" "Limit of each client of a volume; unlimited if missing.";
    CLIENT_LIMIT_OPERATIONS: gauge "plimsoll_volume_client_limit_operations_per_second" [volume direction]
        "operations per second" "Limit of each client of a volume; unlimited if missing.";
    VOLUME_CAPACITY: gauge "plimsoll_volume_capacity_bytes" [volume] "bytes" "Size of a volume.";
    VOLUME_USED: gauge "plimsoll_volume_used_bytes" [volume] "bytes" "Used bytes of a volume.";
    VOLUME_AVAILABLE: gauge "plimsoll_volume_available_bytes" [volume] "bytes"
        "Bytes that files of a volume can still take: without the unused part of the reserve, at most what the disk has.";
    VOLUME_SNAPSHOTS: gauge "plimsoll_volume_snapshots" [volume] "snapshots"
        "Snapshots of a volume that clients can read.";
    VOLUME_SNAPSHOT_BYTES: gauge "plimsoll_volume_snapshot_bytes" [volume] "bytes"
        "Used bytes of a volume that only snapshots need; no series if the storage cannot tell.";
    VOLUME_SNAPSHOT_RESERVE: gauge "plimsoll_volume_snapshot_reserve_bytes" [volume] "bytes"
        "Bytes of a volume that files leave to snapshots.";
    VOLUME_POLICY_FAILURES: counter "plimsoll_volume_policy_failures_total" [volume] "runs"
        "Runs of a volume's policy that failed.";
    VOLUME_SNAPSHOT_TIME: gauge "plimsoll_volume_last_snapshot_timestamp_seconds" [volume] "seconds"
        "Time of the newest snapshot of a volume, in seconds since 1970; no series if there is none.";
    VOLUME_FILES: gauge "plimsoll_volume_files" [volume] "files"
        "Maximum number of files of a volume; unlimited if missing.";
    VOLUME_FILES_USED: gauge "plimsoll_volume_files_used" [volume] "files"
        "Files and directories in a volume.";
    VOLUME_INFO: gauge "plimsoll_volume_info" [volume pool state] "1"
        "The pool and the state of a volume; always 1.";
    REPLICATION_INFO: gauge "plimsoll_replication_info" [volume source peer state] "1"
        "The source, its service (empty: this one) and the state of the replication to a volume; always 1.";
    REPLICATION_HEALTHY: gauge "plimsoll_replication_healthy" [volume] "0 or 1"
        "Whether no scheduled transfer has failed or was missed since the last success.";
    REPLICATION_LAG: gauge "plimsoll_replication_lag_seconds" [volume] "seconds"
        "Age of the last point of a destination; no series before the first.";
    REPLICATION_LAST_TIME: gauge "plimsoll_replication_last_transfer_seconds" [volume] "seconds"
        "Duration of the last transfer.";
    REPLICATION_LAST_BYTES: gauge "plimsoll_replication_last_transfer_bytes" [volume] "bytes"
        "Bytes of the last transfer.";
    REPLICATION_BYTES: counter "plimsoll_replication_bytes_total" [volume] "bytes" "Bytes of all transfers.";
    POOL_CAPACITY: gauge "plimsoll_pool_capacity_bytes" [pool] "bytes" "Size of a pool.";
    POOL_ALLOCATED: gauge "plimsoll_pool_allocated_bytes" [pool] "bytes" "Total size of a pool's volumes.";
    POOL_USED: gauge "plimsoll_pool_used_bytes" [pool] "bytes" "Used bytes of a pool's volumes.";
    POOL_VOLUMES: gauge "plimsoll_pool_volumes" [pool] "volumes" "Volumes of a pool.";
    POOL_LIMIT_BYTES: gauge "plimsoll_pool_limit_bytes_per_second" [pool direction] "bytes per second"
        "Limit that a pool's volumes share; unlimited if missing.";
    POOL_LIMIT_OPERATIONS: gauge "plimsoll_pool_limit_operations_per_second" [pool direction]
        "operations per second" "Limit that a pool's volumes share; unlimited if missing.";
    BACKUPS: gauge "plimsoll_backups" [volume vault] "backups" "Complete backups of a volume in a vault.";
    BACKUP_TAKEN: gauge "plimsoll_backup_last_success_timestamp_seconds" [volume vault] "seconds"
        "Time of the data in the latest complete backup, in seconds since 1970.";
    BACKUP_BYTES: gauge "plimsoll_backup_last_bytes" [volume vault] "bytes"
        "Sizes of all files in the latest complete backup.";
    BACKUP_ADDED: gauge "plimsoll_backup_last_added_bytes" [volume vault] "bytes"
        "Bytes that the latest complete backup added to its vault.";
    BACKUP_ERRORS: gauge "plimsoll_backup_errors" [volume vault] "backups"
        "Backups that failed and that nobody has repeated or deleted.";
    VAULT_FAILURES: counter "plimsoll_vault_failed_operations_total" [vault] "operations"
        "Failed backups, deletions, checks and restores since the start of the service.";
    CONNECTIONS: gauge "plimsoll_connections" [] "connections" "Connections of clients.";
    CONNECTIONS_MAX: gauge "plimsoll_connections_max" [] "connections"
        "Maximum number of client connections.";
    QUEUED: gauge "plimsoll_queued_bytes" [] "bytes" "Bytes of calls that wait for a limit.";
    UNREAD: gauge "plimsoll_unread_bytes" [] "bytes" "Bytes of replies that clients have not read.";
    SPILLED: gauge "plimsoll_spilled_bytes" [] "bytes" "Bytes of incomplete calls outside of receive buffers.";
    WAITING_CALLS: gauge "plimsoll_waiting_calls" [] "calls"
        "Calls that wait for storage, a flush or a limit. A long call counts several times.";
    NFS_CALLS: counter "plimsoll_nfs_calls_total" [protocol] "calls" "Received NFS calls.";
    NFS_OPERATIONS: counter "plimsoll_nfs_operations_total" [protocol operation] "operations"
        "Requested NFS operations; each operation of an NFSv4 compound counts. Operations without requests have no series.";
    NFS4_CLIENTS: gauge "plimsoll_nfs4_clients" [protocol] "clients" "Clients of NFSv4, connected or not.";
    NFS4_SESSIONS: gauge "plimsoll_nfs4_sessions" [protocol] "sessions" "Sessions of NFSv4 clients.";
    NFS4_OPEN_FILES: gauge "plimsoll_nfs4_open_files" [protocol] "files" "Open files of NFSv4 clients.";
    NFS4_LOCKED_RANGES: gauge "plimsoll_nfs4_locked_ranges" [protocol] "ranges"
        "Locked byte ranges of NFSv4 clients.";
    NFS4_DELEGATIONS: gauge "plimsoll_nfs4_delegations" [protocol] "delegations"
        "Delegations of NFSv4 clients.";
    SMB_CONNECTIONS: gauge "plimsoll_smb_connections" [] "connections" "Connections of SMB clients.";
    SMB_SESSIONS: gauge "plimsoll_smb_sessions" [] "sessions" "SMB sessions.";
    SMB_OPEN_FILES: gauge "plimsoll_smb_open_files" [] "files" "Open files and pipes of SMB clients.";
    SMB_REFUSED_LOGINS: counter "plimsoll_smb_refused_logins_total" [] "logins" "Refused SMB logins.";
    HANDLE_HITS: counter "plimsoll_handle_cache_hits_total" [] "handles" "File handles found in the cache.";
    HANDLE_MISSES: counter "plimsoll_handle_cache_misses_total" [] "handles"
        "File handles missing from the cache.";
    PANICS: counter "plimsoll_panics_total" [] "panics"
        "Caught panics; the service abandoned the work that caused each.";
    BUILD_INFO: gauge "plimsoll_build_info" [version] "1" "Version of the service; always 1.";
    ENDPOINT_INFO: gauge "plimsoll_endpoint_info" [endpoint gateway] "1"
        "The endpoint of a cluster that the service is, and its gateway; always 1, and missing outside a cluster.";
    OPEN_DESCRIPTORS: gauge "process_open_fds" [] "descriptors" "Open descriptors.";
    DESCRIPTORS_MAX: gauge "process_max_fds" [] "descriptors" "Maximum number of descriptors.";
    RESIDENT: gauge "process_resident_memory_bytes" [] "bytes" "Resident memory.";
    VIRTUAL: gauge "process_virtual_memory_bytes" [] "bytes" "Virtual memory.";
    THREADS: gauge "process_threads" [] "threads" "Threads.";
    CPU: counter "process_cpu_seconds_total" [] "seconds" "Processor time, user and system.";
}
