//! Processes in groups of their own, and never one left behind.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::container::Exit;

/// What to run, fully determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Where it starts.
    pub folder: PathBuf,
}

impl Launch {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.folder);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A group of its own: a signal reaches what the program started, too.
        command.process_group(0).kill_on_drop(true);
        command
    }
}

/// Who outlives this process: a shell that waits for its input to end and then
/// kills every group whose file is still in the folder. A destructor does not
/// run when the sandbox itself is killed.
#[derive(Debug)]
pub struct Guard {
    groups: PathBuf,
    shell: std::process::Child,
}

impl Guard {
    /// Post the guard.
    pub fn new(folder: &Path) -> io::Result<Self> {
        // `-s KILL`, because dash does not know `-KILL --`.
        const SCRIPT: &str = "read _; cd \"$1\" && for group in *; do \
            [ -e \"$group\" ] && kill -s KILL -- \"-$group\" 2>/dev/null; done";
        let groups = folder.join("groups");
        std::fs::create_dir_all(&groups)?;
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "guard"]).arg(&groups).env_clear();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Not in our group: a Ctrl-C or a kill of the group must not take it along.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Self {
            groups,
            shell: command.spawn()?,
        })
    }

    /// Start a process that does not outlive us.
    pub fn start(&self, launch: &Launch) -> io::Result<Process> {
        self.start_with(launch, Stdio::null())
    }

    /// The same with its input.
    pub fn start_with(&self, launch: &Launch, stdin: Stdio) -> io::Result<Process> {
        let child = launch.command().stdin(stdin).spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let group = group.ok_or_else(|| io::Error::other("the process ended before it had an id"))?;
        let mark = self.groups.join(group.to_string());
        let process = Process {
            child,
            group: Group {
                group,
                mark: mark.clone(),
            },
        };
        std::fs::write(mark, [])?;
        Ok(process)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It has nothing left to wait for; a zombie would be a leak, too.
        let _ = self.shell.wait();
    }
}

/// A process and all it started. Dropping it kills them.
#[derive(Debug)]
pub struct Process {
    /// Its pipes.
    pub child: Child,
    /// Its group.
    pub group: Group,
}

/// A process group; lives at most as long as its process is not waited for.
#[derive(Debug)]
pub struct Group {
    group: Pid,
    mark: PathBuf,
}

impl Group {
    /// The number of the group, which is that of its first process.
    pub fn id(&self) -> i32 {
        self.group.as_raw_nonzero().get()
    }

    /// Send a signal to all of the group. A group that is gone is fine.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = std::fs::remove_file(&self.mark);
    }
}

/// How a process ended.
pub(super) fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::code(code),
        (None, Some(signal)) => Exit::signal(signal),
        (None, None) => Exit::code(255),
    }
}
