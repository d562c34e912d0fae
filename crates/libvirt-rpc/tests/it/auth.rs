//! Daemons that ask for more than they should get, or let in by halves.

use libvirt_rpc::{
    Connection, Error, Kind, Options, transport,
    wire::{
        frame::{self, Header},
        net::{MessageStatus, MessageType},
        procedure::Info,
        remote::{
            auth::{AuthListRet, AuthPolkitRet},
            record::AuthType,
        },
        xdr::Encode,
    },
};
use tokio::io::{AsyncReadExt as _, DuplexStream};

use crate::support::soon;

type Answer = Box<dyn FnOnce(&Header) -> Vec<u8> + Send>;

fn answer<T: Encode + Send + 'static>(value: T) -> Answer {
    Box::new(move |header| {
        let header = header.answer(MessageType::REPLY, MessageStatus::OK);
        frame::message(&header, &value).unwrap()
    })
}

fn offers(kind: AuthType) -> Answer {
    answer(AuthListRet { types: vec![kind] })
}

/// Gives its answers in turn; all it was asked, the last perhaps in vain.
async fn daemon(mut far: DuplexStream, answers: Vec<Answer>) -> Vec<&'static str> {
    let mut answers = answers.into_iter();
    let mut asked = Vec::new();
    let mut message = vec![0; frame::LENGTH];
    while far.read_exact(&mut message).await.is_ok() {
        let length = frame::length(&message).unwrap().unwrap();
        message.resize(length, 0);
        far.read_exact(&mut message[frame::LENGTH..]).await.unwrap();
        let (header, _) = frame::split(&message).unwrap();
        asked.push(Info::find(header.program(), header.proc).unwrap().name);
        let Some(answer) = answers.next() else {
            break;
        };
        let answer = answer(&header);
        tokio::io::AsyncWriteExt::write_all(&mut far, &answer).await.unwrap();
        message.truncate(frame::LENGTH);
    }
    asked
}

/// Opens a connection that fails, over a pipe of which the library knows nothing.
async fn open(options: Options, answers: Vec<Answer>) -> (Error, Vec<&'static str>) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let daemon = tokio::spawn(daemon(far, answers));
    let near = transport::plain(near);
    let opened = soon(Connection::open_on(near, "test:///default", options)).await;
    (opened.unwrap_err(), soon(daemon).await.unwrap())
}

#[tokio::test]
async fn polkit_that_is_not_complete_is_a_refusal() {
    let answers = vec![offers(AuthType::POLKIT), answer(AuthPolkitRet { complete: 0 })];
    let (refused, asked) = open(Options::new(), answers).await;
    assert_eq!(refused.kind(), Kind::Auth, "{refused}");
    assert!(!refused.is_retryable());
    assert_eq!(asked, ["auth_list", "auth_polkit"]);
}

#[cfg(feature = "sasl")]
mod sasl {
    use libvirt_rpc::wire::remote::auth::{AuthSaslInitRet, AuthSaslStartRet};

    use super::*;

    fn fred() -> Options {
        Options::new().credentials("fred", "123456")
    }

    fn mechanisms(list: &str) -> Vec<Answer> {
        let init = AuthSaslInitRet { mechlist: list.into() };
        vec![offers(AuthType::SASL), answer(init)]
    }

    #[tokio::test]
    async fn a_password_is_not_sent_over_a_pipe_of_which_nothing_is_known() {
        let (refused, asked) = open(fred(), mechanisms("PLAIN")).await;
        assert_eq!(refused.kind(), Kind::Auth, "{refused}");
        assert!(refused.to_string().contains("PLAIN is for"), "{refused}");
        assert_eq!(asked, ["auth_list", "auth_sasl_init"]);
    }

    #[tokio::test]
    async fn a_daemon_that_lets_in_without_proof_is_not_believed() {
        for list in ["PLAIN,SCRAM-SHA-1", "SCRAM-SHA-256"] {
            let mut answers = mechanisms(list);
            answers.push(answer(AuthSaslStartRet {
                complete: 1,
                ..AuthSaslStartRet::default()
            }));
            let (refused, asked) = open(fred(), answers).await;
            assert_eq!(refused.kind(), Kind::Auth, "{refused}");
            assert!(refused.to_string().contains("SCRAM"), "{refused}");
            assert_eq!(asked, ["auth_list", "auth_sasl_init", "auth_sasl_start"]);
        }
    }
}
