//! Changes of a server's lists, as the newest revision tells them: to whoever
//! has subscribed. Older ones tell everybody.

use super::running::Link;
use crate::limits::{EVENT_RETRY_MAX, EVENT_RETRY_MIN};
use rmcp::model::{ProtocolVersion, ServerNotification, SubscriptionFilter};

impl Link {
    /// Notes each change of the server's tools, for as long as it is polled.
    pub(crate) async fn hear_of_changes(&self) {
        let tools = self.capabilities().tools.as_ref();
        let tells = tools.and_then(|tools| tools.list_changed) == Some(true);
        if !tells || self.info.protocol_version < ProtocolVersion::V_2026_07_28 {
            return std::future::pending().await;
        }
        let mut pause = EVENT_RETRY_MIN;
        loop {
            let wanted = SubscriptionFilter::builder().tools_list_changed().build();
            if let Ok(mut subscription) = self.peer.listen(wanted).await {
                // What has changed since the last one was told to nobody.
                if pause > EVENT_RETRY_MIN {
                    self.client.tools_changed.notify_one();
                }
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
