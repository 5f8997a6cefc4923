(class_declaration name: (_) @name) @class
(record_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(annotation_type_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(constructor_declaration name: (_) @name) @method
(method_declaration name: (_) @name) @method
(field_declaration (modifiers "static" "final") declarator: (variable_declarator name: (_) @name)) @constant
