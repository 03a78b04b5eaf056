//! TLS in the kernel (kTLS).
//!
//! After the handshake, the kernel seals the bytes that a socket sends and opens those that it receives, so that pages
//! of files leave without a copy into this process. The kernel module is `tls`; Documentation/networking/tls.rst
//! describes the socket options.

use nix::errno::Errno;
use nix::libc::{
    TLS_1_3_VERSION, TLS_CIPHER_AES_GCM_128, TLS_CIPHER_AES_GCM_256, TLS_CIPHER_CHACHA20_POLY1305,
    tls_crypto_info, tls12_crypto_info_aes_gcm_128, tls12_crypto_info_aes_gcm_256,
    tls12_crypto_info_chacha20_poly1305,
};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpTlsRx, TcpTlsTx, TcpUlp, TlsCryptoInfo};
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};
use std::array::TryFromSliceError;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that the kernel seals with one key: 2^24 records of 16 KiB (RFC 8446 §5.5). Linux before 6.14 cannot change
/// the key of an open connection.
pub(crate) const KEY_BYTES_MAX: u64 = 1 << 38;

/// Whether the kernel has turned out to have no TLS.
static IS_MISSING: AtomicBool = AtomicBool::new(false);

/// Prepares a socket for [`install`]. `false` if the kernel has no TLS. Bytes pass unchanged until then.
pub(crate) fn prepare(socket: BorrowedFd<'_>) -> bool {
    if IS_MISSING.load(Ordering::Relaxed) {
        return false;
    }
    match setsockopt(&socket, TcpUlp::default(), b"tls") {
        Ok(()) => true,
        Err(error) => {
            if !IS_MISSING.swap(error == Errno::ENOENT, Ordering::Relaxed) {
                tracing::debug!(%error, "the kernel has no TLS");
            }
            false
        }
    }
}

/// Gives the keys to the kernel, which seals and opens all later bytes.
pub(crate) fn install(socket: BorrowedFd<'_>, secrets: &ExtractedSecrets) -> io::Result<()> {
    setsockopt(&socket, TcpTlsTx, &info(secrets.tx.0, &secrets.tx.1)?)?;
    setsockopt(&socket, TcpTlsRx, &info(secrets.rx.0, &secrets.rx.1)?)?;
    Ok(())
}

/// The keys in the kernel's format, with the number of the next record.
fn info(sequence: u64, secrets: &ConnectionTrafficSecrets) -> io::Result<TlsCryptoInfo> {
    let head = |cipher_type| tls_crypto_info { version: TLS_1_3_VERSION, cipher_type };
    let rec_seq = sequence.to_be_bytes();
    let wrong = |_: TryFromSliceError| io::Error::from(io::ErrorKind::InvalidData);
    Ok(match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
            let (salt, iv) = salted(iv.as_ref()).map_err(wrong)?;
            let key = key.as_ref().try_into().map_err(wrong)?;
            let info = head(TLS_CIPHER_AES_GCM_128);
            TlsCryptoInfo::Aes128Gcm(tls12_crypto_info_aes_gcm_128 { info, iv, key, salt, rec_seq })
        }
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
            let (salt, iv) = salted(iv.as_ref()).map_err(wrong)?;
            let key = key.as_ref().try_into().map_err(wrong)?;
            let info = head(TLS_CIPHER_AES_GCM_256);
            TlsCryptoInfo::Aes256Gcm(tls12_crypto_info_aes_gcm_256 { info, iv, key, salt, rec_seq })
        }
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            let (iv, key) = (iv.as_ref().try_into().map_err(wrong)?, key.as_ref().try_into().map_err(wrong)?);
            let info = head(TLS_CIPHER_CHACHA20_POLY1305);
            TlsCryptoInfo::Chacha20Poly1305(tls12_crypto_info_chacha20_poly1305 {
                info,
                iv,
                key,
                salt: [],
                rec_seq,
            })
        }
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// Splits an initialization vector as the kernel expects it.
fn salted(iv: &[u8]) -> Result<([u8; 4], [u8; 8]), TryFromSliceError> {
    let (salt, iv) = iv.split_at(iv.len().min(4));
    Ok((salt.try_into()?, iv.try_into()?))
}
