//! The conformance list, against the stand-in or a real server.

use sandbox::standin::memgraph::Profile;
use sandbox::standin::memgraph::conformance::{Item, Subject, Verdict, check};
use sandbox::standin::memgraph::process::Program;
use std::path::PathBuf;
use std::process::ExitCode;

/// Real times are multiplied by this for a stand-in.
const SCALE: f64 = 0.2;

struct Arguments {
    binary: Option<PathBuf>,
    profile: Option<String>,
    only: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        binary: None,
        profile: None,
        only: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (arg, None),
        };
        let value = value
            .or_else(|| args.next())
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--binary" => parsed.binary = Some(value.into()),
            "--profile" => parsed.profile = Some(value),
            "--only" => parsed.only = Some(value),
            other => {
                return Err(format!(
                    "unknown option {other}; known: --binary PATH, --profile 3.6|3.9|3.12|next, --only TEXT"
                ));
            }
        }
    }
    Ok(parsed)
}

const PROFILES: [(&str, Profile); 4] = [
    ("3.6", Profile::V3_6),
    ("3.9", Profile::V3_9),
    ("3.12", Profile::V3_12),
    ("next", Profile::Next),
];

fn subjects(arguments: &Arguments) -> Result<Vec<(String, Subject)>, String> {
    let profiles: Vec<_> = PROFILES
        .iter()
        .filter(|(name, _)| arguments.profile.as_ref().is_none_or(|wanted| wanted == name))
        .collect();
    if profiles.is_empty() {
        return Err("there is no such profile; known: 3.6, 3.9, 3.12, next".to_owned());
    }
    if let Some(path) = &arguments.binary {
        // Which release it is decides what is expected of it.
        let [(name, profile)] = profiles.as_slice() else {
            return Err("--binary needs --profile: the release whose behaviour to expect".to_owned());
        };
        let program = Program {
            path: path.clone(),
            before: Vec::new(),
            stand_in: false,
        };
        let subject = Subject {
            program,
            profile: *profile,
            scale: 1.0,
        };
        return Ok(vec![(format!("{} as {name}", path.display()), subject)]);
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = Program {
        path: own.with_file_name("standin"),
        before: vec!["memgraph".to_owned()],
        stand_in: true,
    };
    Ok(profiles
        .into_iter()
        .map(|(name, profile)| {
            let subject = Subject {
                program: program.clone(),
                profile: *profile,
                scale: SCALE,
            };
            (format!("stand-in as {name}"), subject)
        })
        .collect())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let parsed = arguments();
    let subjects = parsed.and_then(|arguments| Ok((subjects(&arguments)?, arguments)));
    let (subjects, arguments) = match subjects {
        Ok(subjects) => subjects,
        Err(error) => {
            eprintln!("memgraph-conformance: {error}");
            return ExitCode::FAILURE;
        }
    };
    let folder = std::env::temp_dir().join(format!("mainstay-conformance-{}", std::process::id()));
    let mut different = 0;
    for (name, subject) in subjects {
        println!("\n{name}");
        for (number, item) in Item::ALL.iter().enumerate() {
            if arguments
                .only
                .as_ref()
                .is_some_and(|only| !item.about().contains(only.as_str()))
            {
                continue;
            }
            let verdict = check(&subject, *item, &folder.join(number.to_string())).await;
            println!("  {:<95} {verdict}", item.about());
            different += u32::from(matches!(verdict, Verdict::Different(_)));
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
    if different == 0 {
        ExitCode::SUCCESS
    } else {
        eprintln!("\nmemgraph-conformance: {different} differences");
        ExitCode::FAILURE
    }
}
