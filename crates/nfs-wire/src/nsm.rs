//! The network status monitor, version 1, XNFS chapter 11: hosts notify each other of their restarts.

use xdr::Xdr;

xdr::constants! {
    pub CONSTANTS {
        PROGRAM: "SM_PROG" = 100_024,
        VERSION: "SM_VERS" = 1,
        STRING_MAX: "SM_MAXSTRLEN" = 1024,
    }
}

/// Bytes of `priv` in `mon`, XNFS §11.2.
pub const PRIVATE_BYTES: usize = 16;

xdr::open_set! {
    /// The procedures, XNFS §11.3.
    pub struct Procedure {
        NULL: "SM_NULL" = 0,
        STAT: "SM_STAT" = 1,
        MON: "SM_MON" = 2,
        UNMON: "SM_UNMON" = 3,
        UNMON_ALL: "SM_UNMON_ALL" = 4,
        SIMU_CRASH: "SM_SIMU_CRASH" = 5,
        NOTIFY: "SM_NOTIFY" = 6,
    }
}

xdr::open_set! {
    /// `res`, XNFS §11.2: whether a host is monitored.
    pub struct Monitored { YES: "STAT_SUCC" = 0, NO: "STAT_FAIL" = 1 }
}

/// `sm_name`, XNFS §11.2: the argument of SM_STAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Name<'a>(#[xdr(max = STRING_MAX)] pub &'a [u8]);

/// `my_id`, XNFS §11.2: the procedure to call when a monitored host restarts; the argument of SM_UNMON_ALL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct MyId<'a> {
    #[xdr(max = STRING_MAX)]
    pub my_name: &'a [u8],
    pub my_prog: u32,
    pub my_vers: u32,
    pub my_proc: u32,
}

/// `mon_id`, XNFS §11.2: the argument of SM_UNMON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct MonitorId<'a> {
    #[xdr(max = STRING_MAX)]
    pub mon_name: &'a [u8],
    pub my_id: MyId<'a>,
}

/// `mon`, XNFS §11.2: the argument of SM_MON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct MonitorArgs<'a> {
    pub mon_id: MonitorId<'a>,
    pub private: [u8; PRIVATE_BYTES],
}

/// `stat_chge`, XNFS §11.2: the argument of SM_NOTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct StatusChange<'a> {
    #[xdr(max = STRING_MAX)]
    pub mon_name: &'a [u8],
    /// Odd while the host is up; larger after each restart.
    pub state: u32,
}

/// `sm_stat_res`, XNFS §11.2: the result of SM_STAT and SM_MON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct StatReply {
    pub res_stat: Monitored,
    pub state: u32,
}

/// `sm_stat`, XNFS §11.2: the result of SM_UNMON and SM_UNMON_ALL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct State(pub u32);
