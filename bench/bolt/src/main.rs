//! Does one small thing with a Bolt message many times over, for callgrind to count.
//!
//! `cargo xtask bench bolt` runs each case twice with different counts: the difference is what the messages cost,
//! without start-up and set-up.

use anyhow::{Context, Result, ensure};
use bolt::frame::{Assembler, FrameScanner, ScanEvent, frame_into};
use bolt::message::{Request, Response, Run};
use bolt::packstream::{Limits, Value};
use bolt::version::Version;
use clap::{Parser, ValueEnum};
use std::hint::black_box;

/// What is done.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Case {
    /// Follow a stream by its headers, as a gateway does.
    Scan,
    /// Put a message of 128 bytes into chunks.
    Frame,
    /// Take a message of 128 bytes out of its chunks.
    Unframe,
    /// Read a RUN with one parameter.
    DecodeRun,
    /// Write a RUN with one parameter.
    EncodeRun,
    /// Read a RECORD of three values.
    DecodeRecord,
    /// Write a RECORD of three values.
    EncodeRecord,
}

/// Does one small thing with a Bolt message many times over.
#[derive(Parser)]
struct Arguments {
    /// What to do.
    #[arg(value_enum)]
    case: Case,
    /// How often.
    count: u32,
}

const VERSION: Version = Version::V5_2;
const LIMIT: usize = 1 << 20;
const QUERY: &str = "CREATE (n:Event {id: $id}) RETURN n.id";

fn run() -> Request<'static> {
    Request::Run(Run::new(QUERY).with("id", Value::from(123_456_i64)))
}

fn record() -> Response<'static> {
    Response::Record(vec![
        Value::from(123_456_i64),
        Value::from("memgraph_ha_1"),
        Value::from(true),
    ])
}

fn main() -> Result<()> {
    let Arguments { case, count } = Arguments::parse();
    match case {
        Case::Scan => scan(count),
        Case::Frame => {
            frame(count);
            Ok(())
        }
        Case::Unframe => unframe(count),
        Case::DecodeRun => decode_run(count),
        Case::EncodeRun => encode_run(count),
        Case::DecodeRecord => decode_record(count),
        Case::EncodeRecord => encode_record(count),
    }
}

/// 128 bytes: PULL with a string as its field.
fn message() -> Vec<u8> {
    let mut message = vec![0xB1, 0x3F, 0xD0, 124];
    message.extend([b'x'; 124]);
    message
}

fn scan(count: u32) -> Result<()> {
    let mut framed = Vec::new();
    frame_into(&mut framed, &message());
    let mut scanner = FrameScanner::new(LIMIT);
    for _ in 0..count {
        let mut input = black_box(framed.as_slice());
        let mut ends = 0;
        while let Some(event) = scanner.next(&mut input)? {
            ends += u32::from(matches!(event, ScanEvent::End(_)));
        }
        ensure!(ends == 1, "one message goes in, {ends} came out");
    }
    Ok(())
}

fn frame(count: u32) {
    let message = message();
    let mut out = Vec::with_capacity(256);
    for _ in 0..count {
        out.clear();
        frame_into(&mut out, black_box(&message));
        black_box(&out);
    }
}

fn unframe(count: u32) -> Result<()> {
    let mut framed = Vec::new();
    frame_into(&mut framed, &message());
    let mut assembler = Assembler::new(LIMIT);
    for _ in 0..count {
        let mut input = black_box(framed.as_slice());
        let whole = assembler.next(&mut input)?.context("a whole message")?;
        black_box(whole);
    }
    Ok(())
}

fn decode_run(count: u32) -> Result<()> {
    let mut bytes = Vec::new();
    run().encode(VERSION, &mut bytes)?;
    for _ in 0..count {
        black_box(Request::parse(VERSION, black_box(&bytes), Limits::default())?);
    }
    Ok(())
}

fn encode_run(count: u32) -> Result<()> {
    let request = run();
    let mut out = Vec::with_capacity(256);
    for _ in 0..count {
        out.clear();
        black_box(&request).encode(VERSION, &mut out)?;
        black_box(&out);
    }
    Ok(())
}

fn decode_record(count: u32) -> Result<()> {
    let mut bytes = Vec::new();
    record().encode(&mut bytes)?;
    for _ in 0..count {
        black_box(Response::parse(black_box(&bytes), Limits::default())?);
    }
    Ok(())
}

fn encode_record(count: u32) -> Result<()> {
    let response = record();
    let mut out = Vec::with_capacity(256);
    for _ in 0..count {
        out.clear();
        black_box(&response).encode(&mut out)?;
        black_box(&out);
    }
    Ok(())
}
