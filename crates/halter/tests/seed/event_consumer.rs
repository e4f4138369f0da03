use halter_protocol::SessionEvent;
use std::io::{self, BufRead};

fn main() -> anyhow::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let event: SessionEvent = serde_json::from_str(&line)?;
        println!("got event: {:?}", event);
    }
    Ok(())
}
