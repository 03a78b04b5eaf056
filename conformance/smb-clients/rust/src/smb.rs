//! The crate `smb`, with every dialect, signed, encrypted and over several connections: PORT SHARE USER PASSWORD. Ends well
//! if all is as it should be.

use std::error::Error;

use smb::connection::{EncryptionMode, MultiChannelConfig};
use smb::{
    Client, ClientConfig, ConnectionConfig, CreateOptions, Dialect, FileAccessMask, FileAttributes,
    FileCreateArgs, FileDispositionInformation, ReadAt, UncPath, WriteAt,
};

/// No multiple of any transfer or block size.
const BYTES: usize = (1 << 20) + 4099;
/// Most that is written or read at a time.
const STEP: usize = 65536;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, share, user, password] = arguments.try_into().map_err(|_| "PORT SHARE USER PASSWORD")?;
    let base = |dialect, encrypts| {
        let mut connection = ConnectionConfig {
            port: port.parse().ok(),
            min_dialect: Some(dialect),
            max_dialect: Some(dialect),
            encryption_mode: if encrypts { EncryptionMode::Required } else { EncryptionMode::Allowed },
            ..ConnectionConfig::default()
        };
        connection.auth_methods.kerberos = false;
        connection
    };
    let mut channels = base(Dialect::Smb0311, false);
    channels.multichannel = MultiChannelConfig::Always;
    let configurations = [
        ("2.1", base(Dialect::Smb021, false)),
        ("3.0", base(Dialect::Smb030, false)),
        ("3.0, encrypted", base(Dialect::Smb030, true)),
        ("3.0.2", base(Dialect::Smb0302, false)),
        ("3.1.1", base(Dialect::Smb0311, false)),
        ("3.1.1, encrypted", base(Dialect::Smb0311, true)),
        ("3.1.1, several connections", channels),
    ];
    for (name, connection) in configurations {
        println!("{name}");
        let client = Client::new(ClientConfig { connection, ..ClientConfig::default() });
        let root = UncPath::new("127.0.0.1")?.with_share(&share)?;
        client.share_connect(&root, &user, password.clone()).await?;
        files(&client, &root).await?;
        client.close().await?;
    }
    Ok(())
}

async fn files(client: &Client, root: &UncPath) -> Result<(), Box<dyn Error>> {
    let data: Vec<u8> = (0..BYTES).map(|at| u8::try_from(at % 233).unwrap_or_default()).collect();
    let path = root.clone().with_path("by the crate smb");
    let new = FileCreateArgs::make_create_new(FileAttributes::default(), CreateOptions::default());
    let file = client.create_file(&path, &new).await?.unwrap_file();
    for (number, part) in data.chunks(STEP).enumerate() {
        let written = file.write_at(part, (number * STEP) as u64).await?;
        assert_eq!(written, part.len());
    }
    file.flush().await?;
    file.close().await?;

    let access = FileAccessMask::new().with_generic_read(true).with_delete(true);
    let file = client.create_file(&path, &FileCreateArgs::make_open_existing(access)).await?.unwrap_file();
    let mut back = vec![0; BYTES];
    for (number, part) in back.chunks_mut(STEP).enumerate() {
        let (at, length) = ((number * STEP) as u64, part.len());
        assert_eq!(file.read_at(part, at).await?, length);
    }
    assert!(back == data, "other bytes come back");
    file.set_info(FileDispositionInformation { delete_pending: true.into() }).await?;
    file.close().await?;
    let gone = client.create_file(&path, &FileCreateArgs::make_open_existing(access)).await;
    assert!(gone.is_err(), "the file is still there");
    Ok(())
}
