use halter_protocol::SessionEvent;

fn append_event(buf: &mut Vec<SessionEvent>, event: SessionEvent) {
    buf.push(event);
}
