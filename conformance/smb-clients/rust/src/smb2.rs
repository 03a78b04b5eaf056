//! The crate `smb2`, which has many requests under way: PORT SHARE USER PASSWORD. Ends well if all is as it should be.

use std::error::Error;

/// No multiple of any transfer or block size.
const BYTES: usize = (5 << 20) + 4099;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, share, user, password] = arguments.try_into().map_err(|_| "PORT SHARE USER PASSWORD")?;
    let mut client = smb2::connect(&format!("127.0.0.1:{port}"), &user, &password).await?;
    let shares = client.list_shares().await?;
    assert!(shares.iter().any(|listed| listed.name == share), "{shares:?}");
    let mut tree = client.connect_share(&share).await?;

    client.create_directory(&tree, "crate").await?;
    let data: Vec<u8> = (0..BYTES).map(|at| u8::try_from(at % 239).unwrap_or_default()).collect();
    client.write_file_pipelined(&tree, "crate/one", &data).await?;
    client.write_file_compound(&tree, "crate/how are you?", b"well").await?;
    client.rename(&tree, "crate/one", "crate/Two").await?;
    let mut names: Vec<(String, u64)> = client
        .list_directory(&mut tree, "crate")
        .await?
        .into_iter()
        .filter(|entry| ![".", ".."].contains(&entry.name.as_str()))
        .map(|entry| (entry.name, entry.size))
        .collect();
    names.sort();
    assert_eq!(names, [("Two".to_owned(), BYTES as u64), ("how are you?".to_owned(), 4)]);
    assert!(client.read_file_pipelined(&mut tree, "CRATE/two").await? == data, "other bytes come back");
    assert_eq!(client.read_file_compound(&mut tree, "crate/how are you?").await?, b"well");
    assert_eq!(client.stat(&mut tree, "crate/Two").await?.size, BYTES as u64);
    client.fs_info(&mut tree).await?;
    for removed in client.delete_files(&tree, &["crate/Two", "crate/how are you?"]).await {
        removed?;
    }
    assert!(client.read_file(&mut tree, "crate/Two").await.is_err());
    client.delete_directory(&tree, "crate").await?;
    client.disconnect_share(&tree).await?;
    let refused = smb2::connect(&format!("127.0.0.1:{port}"), &user, "another password").await;
    assert!(refused.is_err(), "a wrong password is taken");
    Ok(())
}
