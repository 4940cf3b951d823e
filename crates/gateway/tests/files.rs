//! The limit of open files, in a process of its own.

use gateway::raise_file_limit;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_may_be() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let low = Rlimit {
        current: Some(64),
        maximum,
    };
    setrlimit(Resource::Nofile, low).unwrap();
    assert_eq!(raise_file_limit().unwrap(), maximum);
    assert_eq!(getrlimit(Resource::Nofile).current, maximum);
}
