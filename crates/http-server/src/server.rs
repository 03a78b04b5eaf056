//! Listens and serves connections: one thread for sockets, a few for blocking work.

use crate::auth::Authority;
use crate::connections::{Connections, ListedConnection};
use crate::dispatch::{Operation, Peer, router};
use crate::limits::{
    CONNECTIONS_MAX, HANDSHAKE_S_MAX, HEAD_BYTES_MAX, HEAD_S_MAX, HEADERS_MAX, THREADS_MAX, UNREAD_MS_MAX,
};
use crate::tls::{Tls, acceptor};
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// The address of clients that connect over the local socket. Bounds for networks hold for it apart from loopback's.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The address and protection of a server.
#[derive(Clone)]
pub struct Settings {
    /// Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Without a certificate the server speaks plain text.
    pub tls: Option<Tls>,
    /// Permits other addresses than loopback's without TLS or without any token.
    pub allow_insecure: bool,
}

/// A running server.
pub struct Server {
    local: SocketAddr,
    has_tls: bool,
    stopping: watch::Sender<Option<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl Settings {
    /// Refuses to listen where others can read along, or where no token admits anybody.
    fn check(&self, authority: &impl Authority) -> io::Result<()> {
        if self.listen.ip().to_canonical().is_loopback() || self.allow_insecure {
            return Ok(());
        }
        let lacking = match (self.tls.is_some(), authority.has_tokens()?) {
            (true, true) => return Ok(()),
            (false, true) => "a certificate",
            (true, false) => "a token",
            (false, false) => "a certificate and a token",
        };
        let detail = format!(
            "the API does not listen on {} without {lacking}: configure it, listen on 127.0.0.1, or allow it explicitly",
            self.listen
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, detail))
    }
}

impl Server {
    /// Serves `operations` to clients that `authority` admits, over TCP and, in plain text, over a local socket.
    pub fn start<A: Authority>(
        operations: Vec<Operation<A>>,
        authority: Arc<A>,
        settings: &Settings,
        local_socket: Option<net::UnixListener>,
    ) -> io::Result<Self> {
        settings.check(&*authority)?;
        let tls = settings.tls.as_ref().map(acceptor).transpose()?;
        let listener = std::net::TcpListener::bind(settings.listen)?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        local_socket.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .thread_name("api-wait")
            .max_blocking_threads(THREADS_MAX)
            .build()?;
        let (stopping, stop) = watch::channel(None);
        let has_tls = tls.is_some();
        let site = ServerContext {
            router: router(operations, authority),
            tls,
            stop,
            listed: Arc::default(),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        };
        let run = move || run(&runtime, listener, local_socket, site);
        let thread = std::thread::Builder::new().name("api".into()).spawn(run)?;
        Ok(Self { local, has_tls, stopping, thread: Some(thread) })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The address for clients on this machine.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.has_tls { "https" } else { "http" }, self.local)
    }

    /// Takes no more requests and waits at most `patience` for those under way. A change that takes longer goes on in its
    /// thread until it is done or the process ends.
    pub fn stop(mut self, patience: Duration) {
        self.end(patience);
    }

    fn end(&mut self, patience: Duration) {
        self.stopping.send_replace(Some(patience));
        if let Some(thread) = self.thread.take() {
            // If it panicked, that has been said.
            _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

#[derive(Clone)]
struct ServerContext {
    router: Router,
    tls: Option<TlsAcceptor>,
    stop: watch::Receiver<Option<Duration>>,
    listed: Arc<Connections>,
    connections: Arc<Semaphore>,
}

fn run(
    runtime: &Runtime,
    listener: std::net::TcpListener,
    local_socket: Option<net::UnixListener>,
    site: ServerContext,
) {
    runtime.block_on(async {
        let listeners = TcpListener::from_std(listener)
            .and_then(|tcp| Ok((tcp, local_socket.map(UnixListener::from_std).transpose()?)));
        let (tcp, local_socket) = match listeners {
            Ok(listeners) => listeners,
            Err(error) => {
                tracing::error!(%error, "the API cannot listen");
                return;
            }
        };
        tokio::join!(site.clone().accept(tcp), async {
            if let Some(local_socket) = local_socket {
                site.clone().accept(local_socket).await;
            }
        });
        // All connections have ended when all permits are back.
        let patience = site.stop.borrow().unwrap_or_default();
        let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
        _ = timeout(patience, site.connections.acquire_many(all)).await;
    });
}

impl ServerContext {
    /// Waits until the service stops.
    async fn stopped(mut stop: watch::Receiver<Option<Duration>>) {
        // An error means that the server is gone, which is a stop too.
        _ = stop.wait_for(Option::is_some).await;
    }

    async fn accept(self, listener: impl Listener) {
        let mut stopped = pin!(Self::stopped(self.stop.clone()));
        loop {
            let next = tokio::select! {
                next = listener.accept() => next,
                () = stopped.as_mut() => return,
            };
            match next {
                Ok((stream, peer)) => {
                    let Some((listed, ending)) = self.listed.enter(peer) else {
                        tracing::debug!(%peer, "too many connections to the API from one address");
                        continue;
                    };
                    let permit = tokio::select! {
                        permit = Arc::clone(&self.connections).acquire_owned() => permit,
                        () = stopped.as_mut() => return,
                    };
                    let site = self.clone();
                    tokio::spawn(async move {
                        tokio::select! {
                            () = stream.connected(site, peer, Arc::new(listed)) => {}
                            _ = ending => tracing::debug!(%peer, "a connection to the API gave way to another"),
                        }
                        drop(permit);
                    });
                }
                // Most likely out of descriptors: the ones in use must come back first.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the API");
                    sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        peer: IpAddr,
        listed: Arc<ListedConnection>,
    ) {
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            let (served, being_served) = (router.call(request), listed.request());
            async move {
                let reply = served.await;
                drop(being_served);
                reply
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(HEAD_S_MAX))
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = Self::stopped(self.stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection to the API ended");
        }
    }
}

/// A socket that accepts connections.
trait Listener {
    type Stream: Stream;

    /// Returns the next connection with the address of its client.
    async fn accept(&self) -> io::Result<(Self::Stream, IpAddr)>;
}

/// An accepted connection.
trait Stream: Send + 'static {
    fn connected(
        self,
        site: ServerContext,
        peer: IpAddr,
        listed: Arc<ListedConnection>,
    ) -> impl Future<Output = ()> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, IpAddr)> {
        let (stream, peer) = self.accept().await?;
        Ok((stream, peer.ip().to_canonical()))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, IpAddr)> {
        let (stream, _) = self.accept().await?;
        Ok((stream, LOCAL))
    }
}

impl Stream for TcpStream {
    async fn connected(self, site: ServerContext, peer: IpAddr, listed: Arc<ListedConnection>) {
        // Without these a reply is a little late, or its memory is held for longer.
        _ = self.set_nodelay(true);
        _ = rustix::net::sockopt::set_tcp_user_timeout(&self, UNREAD_MS_MAX);
        match site.tls.clone() {
            None => site.serve(self, peer, listed).await,
            Some(tls) => match timeout(Duration::from_secs(HANDSHAKE_S_MAX), tls.accept(self)).await {
                Ok(Ok(stream)) => site.serve(stream, peer, listed).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS handshake"),
                Err(_) => tracing::debug!(%peer, "the TLS handshake took too long"),
            },
        }
    }
}

impl Stream for UnixStream {
    async fn connected(self, site: ServerContext, peer: IpAddr, listed: Arc<ListedConnection>) {
        site.serve(self, peer, listed).await;
    }
}
