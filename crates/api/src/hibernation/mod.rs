//! `HibernatePlan` and `ScheduleException`: what sleeps at night, and what is different this time.

mod exception;
mod parse;
mod spec;
mod status;
pub mod wishes;

pub use exception::{
    ExceptionState, ExceptionType, PlanRef, ScheduleException, ScheduleExceptionSpec,
    ScheduleExceptionStatus, TargetChange,
};
pub use parse::{BadPlan, bad_exceptions, claimed, follow, follow_recorded, last_will, read_exception};
pub use spec::{
    Behavior, BehaviorMode, DeletionPolicy, Dependency, DriftPolicy, Execution, HibernatePlan,
    HibernatePlanSpec, HolidaySpec, OffHours, ScheduleSpec, StageSpec, StrategySpec, StrategyType,
    TargetSpec, WeekDay, WeekInterval,
};
pub use status::{CycleStatus, HibernatePlanStatus, NextStatus, SleptStatus, TargetStatus};

/// Keeps a plan until what it put to sleep is awake, or was given up.
pub const FINALIZER: &str = "mainstay.dev/hibernation";
/// On everything that belongs to a plan: its restore points.
pub const PLAN_LABEL: &str = "mainstay.dev/hibernateplan";
