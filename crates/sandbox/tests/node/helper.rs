//! Programs for pods: this test binary, started again with the name of one of
//! these "tests". What follows the name is for the program.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

fn last_argument() -> Result<String> {
    std::env::args().next_back().context("an argument")
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| name.to_owned())
}

/// Resolve `name:port` by the file of names, or take an address as it is.
fn resolve(target: &str) -> Result<String> {
    let (host, port) = target.split_once(':').context("a port")?;
    let hosts = std::fs::read_to_string(variable(sandbox::node::HOSTS_VARIABLE)?)?;
    let address = sandbox::node::lookup(&hosts, host)
        .first()
        .map_or(host, |address| *address)
        .to_owned();
    Ok(format!("{address}:{port}"))
}

/// Says what it hears and who speaks; sends ticks.
fn serve_one(stream: &TcpStream) -> Result<()> {
    let mut out = stream.try_clone()?;
    println!("accepted {}", stream.peer_addr()?.ip());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                println!("heard {line}");
            }
        });
        for number in 0.. {
            if writeln!(out, "tick {number}").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    });
    Ok(())
}

#[test]
#[ignore = "a program for pods, started by other tests"]
fn serve() -> Result<()> {
    let listener = TcpListener::bind(variable("LISTEN")?)?;
    println!("serving");
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || serve_one(&stream));
    }
    Ok(())
}

/// Keeps one connection for ever: sends lines, says what it hears.
#[test]
#[ignore = "a program for pods, started by other tests"]
fn chat() -> Result<()> {
    let target = variable("TARGET")?;
    let stream = loop {
        match resolve(&target).and_then(|address| Ok(TcpStream::connect(address)?)) {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let mut out = stream.try_clone()?;
    std::thread::spawn(move || {
        for number in 0.. {
            if writeln!(out, "line {number}").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    });
    for line in BufReader::new(stream).lines() {
        println!("got {}", line?);
    }
    println!("end");
    Ok(())
}

/// Connects once and says what came of it.
#[test]
#[ignore = "a program for pods, started by other tests"]
fn ask() -> Result<()> {
    let stream = match TcpStream::connect(resolve(&last_argument()?)?) {
        Ok(stream) => stream,
        Err(error) => {
            println!("result: {:?}", error.kind());
            return Ok(());
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut line = String::new();
    match BufReader::new(stream).read_line(&mut line) {
        Ok(_) => println!("result: {line}"),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            println!("result: silence");
        }
        Err(error) => println!("result: {:?}", error.kind()),
    }
    Ok(())
}

/// Uses the API as a pod does.
#[test]
#[ignore = "a program for pods, started by other tests"]
fn list_pods() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = kube::Client::try_from(kube::Config::infer().await?)?;
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::default_namespaced(client);
        let all = kube::api::ListParams::default();
        match tokio::time::timeout(Duration::from_secs(2), pods.list(&all)).await {
            Ok(Ok(list)) => println!("result: {} pods", list.items.len()),
            Ok(Err(error)) => println!("result: {error}"),
            Err(_) => println!("result: silence"),
        }
        Ok(())
    })
}

/// A whole sandbox with one pod, to be killed from outside.
#[test]
#[ignore = "started by another test, to be killed"]
fn victim() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let bed = crate::bed::Bed::new()?;
        // A child of the pod's process, which only its group reaches.
        bed.create(crate::bed::pod("one", "sleep 1000 & wait")).await?;
        bed.until_ready("one").await?;
        println!("folder {}", bed.folder.display());
        println!("groups {:?}", bed.nodes.processes(&crate::bed::party("one")));
        std::future::pending::<()>().await;
        Ok(())
    })
}
