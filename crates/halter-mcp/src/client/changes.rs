//! Changes of a server's lists, as the newest revision tells them: to whoever
//! has subscribed. Older ones tell everybody; over HTTP, whoever has opened a
//! stream for it.

use super::running::Link;
use crate::limits::{EVENT_RETRY_MAX, EVENT_RETRY_MIN};
use rmcp::model::{ProtocolVersion, ServerNotification, SubscriptionFilter};
use std::convert::Infallible;

impl Link {
    /// Notes each change of the server's tools, for as long as it is polled.
    pub(crate) async fn hear_of_changes(&self) -> Infallible {
        let tools = self.capabilities().tools.as_ref();
        let tells = tools.and_then(|tools| tools.list_changed) == Some(true);
        if !tells {
            return std::future::pending().await;
        }
        if self.info.protocol_version < ProtocolVersion::V_2026_07_28 {
            loop {
                // It opens beside the first list, and again when it broke.
                self.client.stream_opened.notified().await;
                self.client.tools_changed.notify_one();
            }
        }
        let mut pause = EVENT_RETRY_MIN;
        loop {
            let wanted = SubscriptionFilter::builder().tools_list_changed().build();
            if let Ok(mut subscription) = self.peer.listen(wanted).await {
                // What has changed before was told to nobody.
                self.client.tools_changed.notify_one();
                pause = EVENT_RETRY_MIN;
                while let Ok(Some(notice)) = subscription.next().await {
                    if matches!(notice, ServerNotification::ToolListChangedNotification(_)) {
                        self.client.tools_changed.notify_one();
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(EVENT_RETRY_MAX);
        }
    }
}
