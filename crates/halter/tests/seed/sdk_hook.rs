use halter_hooks::{Hook, HookEventName, HookResponse};
use halter_protocol::PluginId;
let hook = Hook::callback(HookEventName::PreToolUse, |input| async move {
    if input.tool_name() == Some("shell")
        && input.payload.to_string().contains("rm -rf /")
    {
        return HookResponse::block("dangerous shell command blocked");
    }
    HookResponse::passthrough()
});
let builder = Halter::builder()
    .with_plugin_hook(PluginId::from("sdk-policy"), hook);
