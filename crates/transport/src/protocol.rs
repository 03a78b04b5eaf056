//! The interface between the transport and a protocol.

use crate::connection::Connection;
use crate::context::Context;
use crate::limits;
use crate::message::{Body, Dispatch, Endpoints, Frame, Malformed, PartData, Role};
use crate::outbox::Outbox;
use crate::tls::transform::Transform;
use std::ops::Deref;
use vfs::qos::Admission;
use vfs::{FsError, Volume, Wait};

/// The plan of a call, made without performing any of it.
pub struct Plan<C> {
    pub call: C,
    pub dispatch: Dispatch,
    /// The tokens that the call needs before it begins, if a limit applies.
    pub admission: Option<Admission>,
}

pub enum Progress<C> {
    /// The reply is in the outbox, or the call has none.
    Done,
    /// The reply is in the outbox. It leaves when the pending flushes are done, through [`Protocol::synced`].
    AfterSync(C),
    /// The call needs storage, and its thread must not block ([`vfs::Wait::Storage`]). The transport undoes its output
    /// and resumes it on a storage thread.
    WaitForStorage(C),
    /// The next step of the call needs tokens ([`vfs::Wait::Tokens`]). Earlier steps are paid for, and the outbox holds
    /// nothing of the call. If the queue is full, [`Protocol::finish_without_tokens`] answers it.
    WaitForTokens { at: C, admission: Admission },
    /// A [`crate::DeferredReply`] answers the call, when a recall or an event is over ([`vfs::Wait::Recall`],
    /// [`vfs::Wait::Event`]).
    Detached,
    /// The reply is in the outbox and leaves in clear. All later bytes pass through this transform.
    Switch(Box<dyn Transform>),
}

/// A protocol over connections.
///
/// The way of a message: [`Protocol::frame`] finds its end, [`Protocol::plan`] finds its call, the transport acquires
/// tokens where a limit applies, and [`Protocol::run`] performs the call, here or on a storage thread. A call that has
/// to wait is resumed at its continuation: no message is planned or run twice.
pub trait Protocol: Send + Sync + Sized + 'static {
    type Listener: Clone + Send + Sync + 'static;
    /// The state of one connection. Several threads run its calls at the same time.
    type Session: Send + Sync;
    /// The state of one thread, so that caches need no lock.
    type Memory;
    /// The object of a call: a pointer to the volume that counts the call.
    type Target: Deref<Target: AsRef<Volume>>;
    /// A planned call. It refers to the message's bytes by their positions.
    type Call: Send;
    type Continuation: Send;
    type Upload: Send;

    const MESSAGE_BYTES_MAX: usize;
    /// The number of bytes, framing included, with which the plan of any incomplete message can be made.
    const HEAD_BYTES: usize;
    /// The most bytes after the body of a long message; all of it if a protocol processes messages as a whole.
    const TAIL_BYTES_MAX: usize = limits::TAIL_BYTES_MAX;

    fn session(&self, listener: &Self::Listener, ends: Endpoints) -> Self::Session;

    /// The state of a thread, whose caches may hold `cached_files` files open.
    fn memory(&self, role: Role, cached_files: usize) -> Self::Memory;

    /// Begins a batch of received calls: updates `memory` if the configuration has changed.
    fn begin_turn(&self, memory: &mut Self::Memory);

    /// Ends a batch of calls: they are answered, or wait. `memory` must retain nothing of them.
    fn end_turn(&self, _memory: &mut Self::Memory) {}

    /// Finishes the replies in `out`, which leave together: for work that is cheaper for several at once. `memory` is
    /// that of the thread that made them.
    fn before_send(&self, _memory: &mut Self::Memory, _out: &mut Outbox) {}

    /// Called once a second on each event loop.
    fn tick(&self, _memory: &mut Self::Memory) {}

    /// Finds the frame at the front of the received bytes. `in_parts`: earlier parts of the same message came before.
    fn frame(&self, have: &[u8], in_parts: bool) -> Result<Frame, Malformed>;

    /// Plans a message. `None`: there is nothing to perform, and a refusal is in `out`. Of a message longer than
    /// [`crate::limits::WHOLE_MESSAGE_BYTES_MAX`] only the head is present.
    fn plan(
        &self,
        connection: &Connection<Self>,
        memory: &mut Self::Memory,
        message: &[u8],
        out: &mut Outbox,
    ) -> Result<Option<Plan<Self::Call>>, Malformed>;

    /// Whether the body of this call may be streamed ([`Protocol::begin_upload`]), so that its message may be longer
    /// than a receive buffer.
    fn may_stream(&self, connection: &Connection<Self>, call: &Self::Call) -> bool;

    /// The most bytes of the reply to a call; only long replies need an exact bound.
    fn reply_bytes_max(&self, call: &Self::Call, message: &[u8]) -> u32;

    /// The most bytes of the reply to a resumed call.
    fn reply_bytes_max_at(&self, at: &Self::Continuation) -> u32;

    fn bytes(&self, _call: &Self::Call, message: &[u8]) -> usize {
        message.len()
    }

    fn bytes_at(&self, at: &Self::Continuation) -> usize;

    /// Performs a call. Must not block unless `cx.blocking` allows it.
    fn run(
        &self,
        cx: &mut Context<'_, Self>,
        call: Self::Call,
        message: &[u8],
    ) -> Progress<Self::Continuation>;

    fn resume(&self, cx: &mut Context<'_, Self>, at: Self::Continuation) -> Progress<Self::Continuation>;

    /// Called when the flushes are done that a reply waits for, before it leaves. `reply` is `None` if part of it is in
    /// a pipe. The returned value is dropped after the reply has left.
    fn synced(&self, at: Self::Continuation, reply: Option<&[u8]>) -> Option<Self::Continuation>;

    /// Answers a suspended call with an error: its flushes failed, or there is no room for its reply.
    fn fail(&self, at: Self::Continuation, error: FsError, out: &mut Outbox);

    /// Resumes a call that got no place in the queue for tokens: it performs no further step that needs tokens.
    fn finish_without_tokens(
        &self,
        cx: &mut Context<'_, Self>,
        at: Self::Continuation,
    ) -> Progress<Self::Continuation> {
        self.fail(at, FsError::Wait(Wait::Recall), cx.out);
        Progress::Done
    }

    /// Answers a call that is not performed.
    fn refuse(&self, call: &Self::Call, message: &[u8], error: FsError, out: &mut Outbox);

    /// Begins a call whose body is streamed. `head` is the beginning of a message of `message_bytes`. A call with a
    /// `refusal` gets it as its reply, whatever its body is.
    fn begin_upload(
        &self,
        call: Self::Call,
        head: &[u8],
        message_bytes: usize,
        refusal: Option<FsError>,
    ) -> Result<(Self::Upload, Body), Malformed>;

    /// Processes the part at offset `at` of the body. Returns the number of bytes that were stored.
    fn upload(
        &self,
        cx: &mut Context<'_, Self>,
        upload: &mut Self::Upload,
        at: usize,
        data: PartData<'_>,
    ) -> usize;

    /// Finishes a call whose body is complete. `tail` is the rest of the message.
    fn finish_upload(
        &self,
        cx: &mut Context<'_, Self>,
        upload: Self::Upload,
        tail: &[u8],
    ) -> Progress<Self::Continuation>;
}
