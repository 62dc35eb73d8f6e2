;; A plugin by hand: the contract of wit/0.1.0 around a core module whose functions a test writes. {{…}} are holes.
(component
  (import "callgate:policy/types@0.1.0" (instance $types
    (type $attribute' (record (field "name" string) (field "value" string)))
    (export "attribute" (type $attribute (eq $attribute')))
    (type $agent' (record (field "id" string) (field "name" string) (field "evidence" string)))
    (export "agent" (type $agent (eq $agent')))
    (type $server' (record (field "id" string) (field "name" string)))
    (export "server" (type $server (eq $server')))
    (type $annotations' (record
      (field "read-only" (option bool)) (field "destructive" (option bool))
      (field "idempotent" (option bool)) (field "open-world" (option bool))))
    (export "annotations" (type $annotations (eq $annotations')))
    (type $tool' (record
      (field "name" string) (field "annotations" (option $annotations)) (field "definition-digest" (option string))))
    (export "tool" (type $tool (eq $tool')))
    (type $caller' (record
      (field "agent" (option $agent)) (field "client" string) (field "server" $server)
      (field "attributes" (list $attribute))))
    (export "caller" (type $caller (eq $caller')))
    (type $call' (record
      (field "caller" $caller) (field "tool" $tool) (field "arguments" string) (field "arguments-digest" string)))
    (export "call" (type $call (eq $call')))
    (type $rule' (record (field "path" string) (field "policy" (option string)) (field "text" string)))
    (export "rule" (type $rule (eq $rule')))
    (type $retry' (enum "never" "changed" "later"))
    (export "retry" (type $retry (eq $retry')))
    (type $denial' (record (field "code" string) (field "message" string) (field "retry" $retry)))
    (export "denial" (type $denial (eq $denial')))
    (type $question' (record (field "code" string) (field "message" string) (field "presence" bool)))
    (export "question" (type $question (eq $question')))
    (type $verdict' (variant (case "deny" $denial) (case "ask" $question) (case "allow") (case "abstain")))
    (export "verdict" (type $verdict (eq $verdict')))
    (type $quantity' f64)
    (export "quantity" (type $quantity (eq $quantity')))
    (type $subject' (enum "session" "agent" "everyone"))
    (export "subject" (type $subject (eq $subject')))
    (type $calendar-unit' (enum "hour" "day" "week" "month"))
    (export "calendar-unit" (type $calendar-unit (eq $calendar-unit')))
    (type $calendar' (record (field "unit" $calendar-unit) (field "zone" string)))
    (export "calendar" (type $calendar (eq $calendar')))
    (type $window' (variant (case "lifetime") (case "sliding" u32) (case "calendar" $calendar)))
    (export "window" (type $window (eq $window')))
    (type $occasion' (enum "forwarded" "attempted"))
    (export "occasion" (type $occasion (eq $occasion')))
    (type $charge' (record
      (field "key" string) (field "subject" $subject) (field "window" $window) (field "occasion" $occasion)
      (field "amount" $quantity) (field "limit" $quantity) (field "rule" $rule)
      (field "code" string) (field "message" string)))
    (export "charge" (type $charge (eq $charge')))
    (type $decision' (record
      (field "verdict" $verdict) (field "rule" (option $rule)) (field "notes" (list string))
      (field "charges" (list $charge)) (field "any-arguments" bool)))
    (export "decision" (type $decision (eq $decision')))
    (type $visibility' (variant (case "shown") (case "hidden" (option $rule))))
    (export "visibility" (type $visibility (eq $visibility')))))
  (alias export $types "caller" (type $caller))
  (alias export $types "tool" (type $tool))
  (alias export $types "call" (type $call))
  (alias export $types "decision" (type $decision))
  (alias export $types "visibility" (type $visibility))

  (import "callgate:policy/log@0.1.0" (instance $log
    (type $level' (enum "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $level')))
    (export "write" (func (param "level" $level) (param "message" string)))))

  ;; Memory and its allocator, apart, so that `log.write` can be given the memory before the guest is there. The allocator
  ;; hands out memory from 64 KiB on, grows it as needed, and forgets everything when told so.
  (core module $store
    (memory (export "memory") 2)
    (global $top (mut i32) (i32.const 65536))
    (func (export "realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32) (local $short i32)
      (local.set $at (i32.and
        (i32.add (global.get $top) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
      (global.set $top (i32.add (local.get $at) (local.get $size)))
      (local.set $short (i32.sub
        (i32.div_u (i32.add (global.get $top) (i32.const 65535)) (i32.const 65536))
        (memory.size)))
      (if (i32.gt_s (local.get $short) (i32.const 0)) (then (drop (memory.grow (local.get $short)))))
      (local.get $at))
    (func (export "forget") (param i32) (global.set $top (i32.const 65536))))
  (core instance $store (instantiate $store))
  (core func $write (canon lower (func $log "write") (memory (core memory $store "memory"))))

  (core module $guest
    (import "store" "memory" (memory 2))
    (import "log" "write" (func $log (param $level i32) (param $text i32) (param $length i32)))
    (data (i32.const 512) "{{configured}}")
    (data (i32.const 1024) "{{decision}}")
    (func (export "configure") (param $text i32) (param $length i32) (result i32)
      (local $i i32)
      {{configure}})
    (func (export "decide") (param $call i32) (result i32)
      (local $i i32)
      {{decide}})
    (func (export "show") (param i32) (result i32) unreachable)
    {{fields}})
  (core instance $guest (instantiate $guest
    (with "store" (instance $store))
    (with "log" (instance (export "write" (func $write))))))

  (type $settings-error (record (field "path" string) (field "message" string) (field "hint" (option string))))
  (type $settings-warning (record (field "path" string) (field "message" string)))
  (func $configure
    (param "settings" string) (result (result (list $settings-warning) (error (list $settings-error))))
    (canon lift (core func $guest "configure") (memory (core memory $store "memory")) (realloc (core func $store "realloc"))))
  ;; Gives the two types their names in the exported instance.
  (component $named
    (type $error' (record (field "path" string) (field "message" string) (field "hint" (option string))))
    (import "settings-error" (type $error (eq $error')))
    (type $warning' (record (field "path" string) (field "message" string)))
    (import "settings-warning" (type $warning (eq $warning')))
    (import "configure" (func $configure
      (param "settings" string) (result (result (list $warning) (error (list $error))))))
    (export $named-error "settings-error" (type $error))
    (export $named-warning "settings-warning" (type $warning))
    (export "configure" (func $configure) (func
      (param "settings" string) (result (result (list $named-warning) (error (list $named-error)))))))
  (instance $lifecycle (instantiate $named
    (with "settings-error" (type $settings-error))
    (with "settings-warning" (type $settings-warning))
    (with "configure" (func $configure))))
  (export "callgate:policy/lifecycle@0.1.0" (instance $lifecycle))

  (func $decide (param "call" $call) (result $decision)
    (canon lift (core func $guest "decide") (memory (core memory $store "memory")) (realloc (core func $store "realloc"))
      (post-return (core func $store "forget"))))
  (instance $call-policy (export "decide" (func $decide)))
  (func $show (param "caller" $caller) (param "tools" (list $tool)) (result (list $visibility))
    (canon lift (core func $guest "show") (memory (core memory $store "memory")) (realloc (core func $store "realloc"))))
  (instance $catalog-policy (export "show" (func $show)))
  {{exports}}
  {{manifest}})
