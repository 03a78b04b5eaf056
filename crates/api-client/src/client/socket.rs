//! HTTP over a Unix socket.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Connects to the socket, whatever host a request names.
#[derive(Debug)]
pub(super) struct SocketConnector(pub(super) PathBuf);

pub(super) struct SocketTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl std::fmt::Debug for SocketTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stream.fmt(f)
    }
}

impl<In: Transport> Connector<In> for SocketConnector {
    type Out = SocketTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<In>,
    ) -> Result<Option<SocketTransport>, Error> {
        let stream = UnixStream::connect(&self.0)?;
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(SocketTransport { stream, buffers }))
    }
}

impl Transport for SocketTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(timeout.not_zero().map(|limit| *limit))?;
        let sent = self.stream.write_all(&self.buffers.output()[..amount]);
        sent.map_err(|error| timed_out(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(timeout.not_zero().map(|limit| *limit))?;
        let received = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received.map_err(|error| timed_out(error, timeout))?,
            }
        };
        self.buffers.input_appended(received);
        Ok(received > 0)
    }

    fn is_open(&mut self) -> bool {
        // A connection that the server has closed is readable: nothing else arrives between requests.
        let peeked = self
            .stream
            .set_nonblocking(true)
            .and_then(|()| self.stream.read(&mut [0]))
            .map_err(|error| error.kind());
        self.stream.set_nonblocking(false).is_ok() && peeked == Err(ErrorKind::WouldBlock)
    }
}

/// A socket reports the end of a timeout as "would block".
fn timed_out(error: std::io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}
