//! Long compounds without a long WRITE.

use super::dispatch::{RpcCall, Target};
use super::large_write::nfs4::BufferedCompound;
use super::{Continuation, Rpc, Upload};
use crate::state::call_rates;
use crate::v4;
use transport::{Context, Progress, Protocol};
use vfs::{FsError, Wait};

impl Upload {
    pub(super) fn call(&self) -> &RpcCall {
        match self {
            Self::Write(write) => write.call(),
            Self::Compound(write) => write.call(),
            Self::Buffered(buffered) => &buffered.call,
        }
    }
}

impl Rpc {
    /// Runs a long compound that has arrived completely. Its head showed only its first operations.
    pub(super) fn run_buffered(
        &self,
        cx: &mut Context<'_, Self>,
        buffered: BufferedCompound,
        message: &[u8],
    ) -> Progress<Continuation> {
        let BufferedCompound { mut call, refusal } = buffered;
        let outline = v4::outline(call.args(message), None);
        let was_recorded = matches!(call.target, Target::Compound(head) if head.is_recorded);
        call.target = Target::Compound(outline);
        let admission = call_rates::admission(&self.service.rates.records, cx.connection.client());
        let admitted =
            if outline.is_recorded && !was_recorded { admission.try_acquire().map(Some) } else { Ok(None) };
        let refusal = refusal.or(admitted.is_err().then_some(FsError::Wait(Wait::Recall)));
        match refusal {
            None => self.run(cx, call, message),
            Some(error) => {
                call.fail(call.args(message), error, cx.out);
                Progress::Done
            }
        }
    }
}
