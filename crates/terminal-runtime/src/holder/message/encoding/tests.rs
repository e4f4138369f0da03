use halter_exec::{LaunchFailure, LaunchStep};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::holder::message::{Exit, ProcessState, Reply, Unit};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

fn kind() -> impl Strategy<Value = UnitKind> {
    prop_oneof![
        Just(UnitKind::Output),
        Just(UnitKind::Input),
        Just(UnitKind::File),
        Just(UnitKind::Terminal),
        Just(UnitKind::Journal),
    ]
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![
        Just(Source::Null),
        (any::<u8>(), any::<u8>()).prop_map(|(unit, part)| Source::Part { unit, part }),
    ]
}

fn start() -> impl Strategy<Value = Start> {
    (any::<u64>(), bytes(), vec(any::<u64>(), 0..5)).prop_map(|(key, record, units)| Start {
        key,
        record,
        units,
    })
}

fn spawn() -> impl Strategy<Value = Request> {
    let role = prop_oneof![Just(Role::Command), Just(Role::Shell)];
    (start(), role, vec(source(), 0..5), bytes()).prop_map(|(start, role, slots, plan)| {
        Request::Spawn(Birth {
            key: start.key,
            record: start.record,
            units: start.units,
            role,
            slots,
            plan,
        })
    })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        any::<u64>().prop_map(|version| Request::Hello { version }),
        (kind(), any::<u64>()).prop_map(|(kind, count)| Request::Make { kind, count }),
        (any::<u64>(), kind()).prop_map(|(id, kind)| Request::Give { id, kind }),
        start().prop_map(|start| Request::Put {
            key: start.key,
            record: start.record,
            units: start.units,
        }),
        spawn(),
        (any::<u64>(), bytes(), option::of(start()))
            .prop_map(|(key, lines, start)| Request::Tell { key, lines, start }),
        any::<u64>().prop_map(|key| Request::Settle { key }),
        any::<u64>().prop_map(|key| Request::CloseInput { key }),
        any::<u64>().prop_map(|key| Request::Forget { key }),
        (any::<u64>(), any::<bool>()).prop_map(|(key, written)| Request::Recycle { key, written }),
        vec(any::<u64>(), 0..5).prop_map(|units| Request::Drop { units }),
        (any::<u64>(), any::<i32>()).prop_map(|(key, signal)| Request::Signal { key, signal }),
        any::<u64>().prop_map(|key| Request::Show { key }),
        Just(Request::ForgetGroups),
        Just(Request::End),
        (any::<u64>(), vec(any::<u64>(), 0..5))
            .prop_map(|(key, units)| Request::Keep { key, units }),
        (any::<u64>(), start(), any::<bool>()).prop_map(|(from, start, working)| Request::Move {
            from,
            key: start.key,
            record: start.record,
            units: start.units,
            working,
        }),
    ]
}

fn exit() -> impl Strategy<Value = Exit> {
    (
        option::of(any::<i32>()),
        option::of(any::<i32>()),
        any::<[u64; 4]>(),
    )
        .prop_map(
            |(code, signal, [user_us, system_us, max_resident_bytes, at_us])| Exit {
                code,
                signal,
                user_us,
                system_us,
                max_resident_bytes,
                at_us,
            },
        )
}

fn failure() -> impl Strategy<Value = LaunchFailure> {
    (any::<i32>(), any::<u32>()).prop_map(|(errno, entry)| LaunchFailure {
        step: LaunchStep::Exec,
        errno,
        entry,
    })
}

fn process() -> impl Strategy<Value = ProcessState> {
    prop_oneof![
        Just(ProcessState::Absent),
        any::<i32>().prop_map(|pid| ProcessState::Running { pid }),
        (any::<i32>(), exit()).prop_map(|(pid, exit)| ProcessState::Exited { pid, exit }),
        failure().prop_map(ProcessState::Failed),
    ]
}

fn units() -> impl Strategy<Value = Vec<Unit>> {
    let unit = (any::<u64>(), kind(), vec(any::<i32>(), 0..4));
    vec(
        unit.prop_map(|(id, kind, numbers)| Unit { id, kind, numbers }),
        0..4,
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (any::<u64>(), any::<i32>()).prop_map(|(version, pid)| Reply::Welcome { version, pid }),
        any::<u64>().prop_map(|version| Reply::Refused { version }),
        (any::<u64>(), bytes(), units(), process()).prop_map(|(key, record, units, process)| {
            Reply::Slot {
                key,
                record,
                units,
                process,
            }
        }),
        Just(Reply::Ready),
        (kind(), units()).prop_map(|(kind, units)| Reply::Units { kind, units }),
        (any::<u64>(), any::<i32>()).prop_map(|(key, pid)| Reply::Started { key, pid }),
        (any::<u64>(), exit()).prop_map(|(key, exit)| Reply::Exited { key, exit }),
        (any::<u64>(), failure()).prop_map(|(key, failure)| Reply::Failed { key, failure }),
    ]
}

proptest! {
    #[test]
    fn requests_survive_their_encoding(requests in vec(request(), 0..6)) {
        let bytes = Request::encode_all(&requests);
        prop_assert_eq!(Request::decode_all(&bytes), Ok(requests));
    }

    #[test]
    fn replies_survive_their_encoding(reply in reply()) {
        prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }

    #[test]
    fn a_cut_message_is_refused(
        request in request(),
        reply in reply(),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = Request::encode_all(&[request]);
        let end = cut.index(bytes.len());
        prop_assert!(end == 0 || Request::decode_all(&bytes[..end]).is_err());
        let bytes = reply.encode();
        prop_assert!(Reply::decode(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Request::decode_all(&bytes);
        let _ = Reply::decode(&bytes);
    }
}

#[test]
fn the_greeting_never_changes() {
    let hello = Request::encode_all(&[Request::Hello { version: 300 }]);
    assert_eq!(hello, [1, 0xac, 0x02]);
    let welcome = Reply::Welcome {
        version: 1,
        pid: 64,
    };
    assert_eq!(welcome.encode(), [1, 1, 0x80, 0x01]);
    assert_eq!(Reply::Refused { version: 1 }.encode(), [2, 1]);
}
