//! Frames a real libvirtd 9.0.0 sent for its test driver, read back.

use super::{
    constant::error::ErrorNumber,
    describe, frame,
    net::{MessageError, MessageStatus},
    remote::{auth::AuthListRet, connect::ConnectListAllDomainsRet, node::NodeGetInfoRet, record::AuthType},
    xdr::{Decode, Decoder, Encode as _, Encoder},
};

const FRAMES: &str = include_str!("fixtures/libvirtd-9.0.0.txt");

/// The frame whose title begins with a name.
fn captured(title: &str) -> Vec<u8> {
    let (_, rest) = FRAMES.split_once(&format!("# {title}")).unwrap();
    let digits: Vec<u32> = rest
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .flat_map(str::chars)
        .map(|c| c.to_digit(16).unwrap())
        .collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn reply<T: Decode>(title: &str) -> T {
    let frame = captured(title);
    assert_eq!(frame::length(&frame), Ok(Some(frame.len())));
    let (header, payload) = frame::split(&frame).unwrap();
    assert_eq!(header.status, MessageStatus::OK);
    let mut from = Decoder::new(payload);
    let value = T::decode(&mut from).unwrap();
    assert!(from.rest().is_empty());
    assert!(describe(header.program(), header.proc, true, payload).unwrap().is_ok());
    value
}

#[test]
fn replies_are_read_to_their_last_byte() {
    assert_eq!(reply::<AuthListRet>("auth_list").types, [AuthType::NONE]);
    reply::<()>("connect_open");
    let node: NodeGetInfoRet = reply("node_get_info");
    assert_eq!(
        (node.model.text(), node.cpus, node.memory),
        (&b"i686"[..], 16, 3_145_728)
    );
    let domains: ConnectListAllDomainsRet = reply("connect_list_all_domains");
    assert_eq!(
        (domains.ret, domains.domains[0].name.to_string()),
        (1, "test".to_owned())
    );
}

#[test]
fn errors_are_read_and_written_back_byte_for_byte() {
    for (title, code) in [
        ("domain_lookup_by_name", ErrorNumber::ERR_NO_DOMAIN),
        ("a procedure number", ErrorNumber::ERR_RPC),
    ] {
        let frame = captured(title);
        let (header, payload) = frame::split(&frame).unwrap();
        assert_eq!(header.status, MessageStatus::ERROR);
        let error = MessageError::decode(&mut Decoder::new(payload)).unwrap();
        assert_eq!(ErrorNumber(error.code), code, "{error:?}");
        let mut back = Vec::new();
        error.encode(&mut Encoder::new(&mut back)).unwrap();
        assert_eq!(back, payload);
    }
}
