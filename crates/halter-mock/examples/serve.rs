//! Serves the built-in scenarios until it is interrupted:
//! `cargo run -p halter-mock --example serve`.
#![allow(clippy::print_stdout)]

use halter_mock::{ServeOptions, serve};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = serve(ServeOptions::default()).await?;
    println!("{}", service.base_url());
    tokio::signal::ctrl_c().await?;
    service.stop().await;
    Ok(())
}
