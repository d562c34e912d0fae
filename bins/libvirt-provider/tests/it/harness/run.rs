//! A command of the binary, run to its end.

use std::{
    ffi::OsStr,
    process::{Child, Command, Output, Stdio},
};

/// A command line, with nothing of this process's own configuration.
#[derive(Debug)]
pub(crate) struct Run(Command);

/// How it ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn of(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_libvirt-provider"));
        command.args(arguments).stdin(Stdio::null());
        Self(command)
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    pub(crate) fn flag(self, flag: &str, value: impl AsRef<OsStr>) -> Self {
        self.arg(flag).arg(value)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn end(mut self) -> End {
        self.0.output().unwrap().into()
    }

    /// Starts it, with an output to read.
    pub(crate) fn spawn(mut self) -> Child {
        self.0.stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Its output; it must succeed.
    pub(crate) fn ok(self) -> String {
        let end = self.end();
        assert_eq!((end.code, end.err.as_str()), (0, ""), "{}", end.out);
        end.out
    }

    /// Runs it with an output that nobody reads.
    pub(crate) fn into_closed_pipe(mut self) -> End {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = self.0.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        child.wait_with_output().unwrap().into()
    }
}

impl From<Output> for End {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}
