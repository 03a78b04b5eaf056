//! The bounds in the description of the interface are those that management enforces.

use api_client::model::{
    ACCOUNT_ID_MAX, ACCOUNT_NAME_CHARS_MAX, ANONYMOUS_ID, DESCRIPTION_CHARS_MAX, ENDPOINTS_MAX, ID_MAX,
    LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, LOCK_DAYS_MAX, PASSWORD_UNITS_MAX, PROTOCOLS_MAX,
    RESTORE_PATH_CHARS_MAX, RESTORE_PATHS_MAX, RULES_MAX, SNAP_RESERVE_MAX, SNAPSHOTS_MAX, WINDOWS_NAMES_MAX,
};

const _: () =
    assert!(ID_MAX == vfs::model::caller::INVALID_ID - 1 && ANONYMOUS_ID == vfs::namespace::ANONYMOUS_ID);
const _: () =
    assert!(LABELS_MAX == control::LABELS_MAX && LABEL_KEY_BYTES_MAX == control::LABEL_KEY_BYTES_MAX);
const _: () = assert!(LABEL_VALUE_BYTES_MAX == control::LABEL_VALUE_BYTES_MAX);
const _: () = assert!(PROTOCOLS_MAX == control::PROTOCOLS_MAX && RULES_MAX == control::RULES_MAX);
const _: () = assert!(DESCRIPTION_CHARS_MAX == control::DESCRIPTION_CHARS_MAX);
const _: () = assert!(RESTORE_PATHS_MAX == control::RESTORE_PATHS_MAX);
const _: () = assert!(RESTORE_PATH_CHARS_MAX == control::RESTORE_PATH_CHARS_MAX);
const _: () = assert!(SNAP_RESERVE_MAX == control::SNAP_RESERVE_PERCENT_MAX);
const _: () = assert!(SNAPSHOTS_MAX == control::SNAPSHOTS_PER_VOLUME_MAX);
const _: () = assert!(ENDPOINTS_MAX == control::ENDPOINTS_MAX);
const _: () = assert!(ACCOUNT_NAME_CHARS_MAX == control::ACCOUNT_NAME_CHARS_MAX);
const _: () = assert!(ACCOUNT_ID_MAX == control::ACCOUNT_ID_MAX);
const _: () = assert!(PASSWORD_UNITS_MAX == control::PASSWORD_UNITS_MAX);
const _: () = assert!(LOCK_DAYS_MAX == control::LOCK_DAYS_MAX);
const _: () = assert!(RESTORE_PATHS_MAX == control::RESTORE_PATHS_MAX);
const _: () = assert!(RESTORE_PATH_CHARS_MAX == control::RESTORE_PATH_CHARS_MAX);
const _: () = assert!(WINDOWS_NAMES_MAX == control::WINDOWS_NAMES_MAX);
